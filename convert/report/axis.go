package report

import (
	"fmt"
	"strconv"
)

// An axis divides a stretch of time into round steps.
type axis struct {
	step    int64  // ms
	columns int    // of a step
	unit    string // how format writes times
	format  func(ms int64) string
}

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

var roundSteps = []int64{
	1, 2, 5, 10, 20, 50, 100, 200, 500,
	1 * second, 2 * second, 5 * second, 10 * second, 15 * second, 30 * second,
	1 * minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
	1 * hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, 1 * day,
}

// newAxis chooses the smallest step whose labels have room, and gives all of
// them the same number of columns.
func newAxis(extent span, columns int) axis {
	perCol := max(float64(extent.end-extent.start), 1) / float64(columns)
	for i := 0; ; i++ {
		a := axis{step: roundSteps[min(i, len(roundSteps)-1)]}
		if over := i - len(roundSteps) + 1; over > 0 {
			a.step <<= min(over, 30)
		}
		a.setFormat(extent.end)
		a.columns = int(min(float64(a.step)/perCol, float64(columns)))
		if a.columns >= max(len(a.format(extent.end))+3, 8) || a.step >= day<<30 {
			a.columns = max(a.columns, 1)
			return a
		}
	}
}

func (a *axis) setFormat(end int64) {
	switch {
	case a.step < second && end <= second:
		a.unit, a.format = "ms", func(t int64) string { return strconv.FormatInt(t, 10) }
	case a.step < second:
		digits := 1
		for s := a.step; s%100 != 0 && digits < 3; s *= 10 {
			digits++
		}
		a.unit, a.format = "s", func(t int64) string { return strconv.FormatFloat(float64(t)/second, 'f', digits, 64) }
	case end <= 2*minute && a.step < minute:
		a.unit, a.format = "s", func(t int64) string { return strconv.FormatInt(t/second, 10) }
	case a.step >= day:
		a.unit, a.format = "d", func(t int64) string { return strconv.FormatInt(t/day, 10) }
	case end < hour:
		a.unit, a.format = "m:ss", func(t int64) string { return fmt.Sprintf("%d:%02d", t/minute, t%minute/second) }
	case a.step < minute:
		a.unit, a.format = "h:mm:ss", func(t int64) string {
			return fmt.Sprintf("%d:%02d:%02d", t/hour, t%hour/minute, t%minute/second)
		}
	default:
		a.unit, a.format = "h:mm", func(t int64) string { return fmt.Sprintf("%d:%02d", t/hour, t%hour/minute) }
	}
}

// floorTo returns the largest multiple of step that is not above t.
func floorTo(t, step int64) int64 {
	m := t % step
	if m < 0 {
		m += step
	}
	return t - m
}

// formatSeconds writes a duration in seconds, with as many decimals as tell
// something, in at most 7 columns.
func formatSeconds(ms int64) string {
	s := float64(ms) / second
	switch {
	case ms == 0:
		return "0 s"
	case ms < second:
		return strconv.FormatFloat(s, 'f', 3, 64) + " s"
	case ms < 10*second:
		return strconv.FormatFloat(s, 'f', 2, 64) + " s"
	case ms < 1000*second:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case ms < 100_000*second:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	default:
		return strconv.FormatFloat(s, 'e', 0, 64) + " s"
	}
}

// grouped writes n with a comma between thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
