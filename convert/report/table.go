package report

// A table is rows under a head, with the names of its rows at the left and
// figures, which stand at the right of their columns.
type table struct {
	title string
	head  []string // of the columns behind the title's
	rows  []row
	notes []string // below it
}

// A row is a line of a table.
type row struct {
	name  string // may hold anything that a log can
	style style
	cells []string // one for each column of the head; the last ones may be missing
}

func (t *table) add(name string, cells ...string) {
	t.rows = append(t.rows, row{name: name, cells: cells})
}

// mark says of the last row what is the matter with it, if anything is.
func (t *table) mark(what string, failed bool) {
	if what == "" {
		return
	}
	r := &t.rows[len(t.rows)-1]
	r.name += " " + what
	r.style = styleDim
	if failed {
		r.style = styleFailed
	}
}

// columnGap is how many columns of the terminal stand between two of a table.
const columnGap = 2

// widths returns how many columns of the terminal each column takes. Where the
// table would be too wide, its names are cut, and then its last columns are left
// out.
func (t *table) widths(width int) []int {
	ws := []int{textWidth(t.title)}
	for _, h := range t.head {
		ws = append(ws, textWidth(h))
	}
	for _, r := range t.rows {
		ws[0] = max(ws[0], textWidth(r.name))
		for i, c := range r.cells {
			ws[i+1] = max(ws[i+1], textWidth(c))
		}
	}
	over := sum(ws) - width
	if narrowest := max(textWidth(t.title), 14); over > 0 {
		ws[0] = max(ws[0]-over, min(ws[0], narrowest))
	}
	for len(ws) > 1 && sum(ws) > width {
		ws = ws[:len(ws)-1]
	}
	return ws
}

// sum returns the width of columns with the gaps between them.
func sum(ws []int) int {
	total := columnGap * (len(ws) - 1)
	for _, w := range ws {
		total += w
	}
	return total
}

// A block is a table that is laid out.
type block struct {
	*table
	widths []int
	ascii  bool
}

func (b *block) width() int { return sum(b.widths) }

func (b *block) lines() int { return 1 + len(b.rows) }

// line writes a line of the block and fills it up to its width.
func (b *block) line(p *pen, n int) {
	name, cells, first, others := b.title, b.head, styleBold, styleDim
	if n > 0 {
		r := b.rows[n-1]
		name, cells, first, others = r.name, r.cells, r.style, r.style
	}
	name = fit(name, b.widths[0], b.ascii)
	p.put(first, name)
	p.pad(b.widths[0] - textWidth(name))
	for i, w := range b.widths[1:] {
		cell := ""
		if i < len(cells) {
			cell = cells[i]
		}
		p.pad(columnGap + w - textWidth(cell))
		p.put(others, cell)
	}
}

// blockGap is how many columns of the terminal stand between two tables.
const blockGap = 6

// tables writes tables, each after an empty line: beside each other where they
// have room.
func (p *pen) tables(ascii bool, tables ...*table) {
	var blocks []*block
	for _, t := range tables {
		if len(t.rows) > 0 {
			blocks = append(blocks, &block{t, t.widths(p.width), ascii})
		}
	}
	for len(blocks) > 0 {
		n, width := 1, blocks[0].width()
		for n < len(blocks) && width+blockGap+blocks[n].width() <= p.width {
			width += blockGap + blocks[n].width()
			n++
		}
		p.abreast(blocks[:n])
		blocks = blocks[n:]
	}
}

// abreast writes blocks beside each other, and their notes below.
func (p *pen) abreast(blocks []*block) {
	p.endLine()
	lines := 0
	for _, b := range blocks {
		lines = max(lines, b.lines())
	}
	for n := range lines {
		last := len(blocks) - 1
		for last > 0 && blocks[last].lines() <= n {
			last--
		}
		for i, b := range blocks[:last+1] {
			if i > 0 {
				p.pad(blockGap)
			}
			if n < b.lines() {
				b.line(p, n)
			} else {
				p.pad(b.width())
			}
		}
		p.endLine()
	}
	for _, b := range blocks {
		for _, text := range b.notes {
			p.note(text)
		}
	}
}
