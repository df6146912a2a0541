package prover

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueue holds a queue against a plain list of units: it gives the first in
// order, and holds up those who have offered what is beyond its room, the
// earliest in order excepted as room is made.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue{room: rapid.IntRange(1, 4).Draw(t, "room")}
		var sectors []*sector
		for age := range 4 {
			sectors = append(sectors, &sector{age: uint64(age)})
		}
		var model []*unit
		partition := 0
		blocked := func() (n int) {
			for _, u := range model {
				select {
				case <-u.admitted:
				default:
					n++
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				partition++
				u := &unit{s: rapid.SampledFrom(sectors).Draw(t, "sector"), partitions: []int{partition}, admitted: make(chan struct{})}
				model = append(model, u)
				q.push(u)
			},
			"pop": func(t *rapid.T) {
				u := q.pop()
				if len(model) == 0 {
					if u != nil {
						t.Fatal("a unit from nowhere")
					}
					return
				}
				first := slices.MinFunc(model, func(a, b *unit) int {
					return cmp.Or(cmp.Compare(a.s.age, b.s.age), cmp.Compare(a.partitions[0], b.partitions[0]))
				})
				if u != first {
					t.Fatal("not the first")
				}
				<-u.admitted
				model = slices.DeleteFunc(model, func(v *unit) bool { return v == u })
			},
			"remove": func(t *rapid.T) {
				s := rapid.SampledFrom(sectors).Draw(t, "sector")
				removed := q.remove(s)
				for _, u := range removed {
					<-u.admitted
				}
				before := len(model)
				model = slices.DeleteFunc(model, func(v *unit) bool { return v.s == s })
				if len(removed) != before-len(model) {
					t.Fatal("not all of the sector")
				}
			},
			"": func(t *rapid.T) {
				if len(q.units) != len(model) {
					t.Fatalf("%d units, want %d", len(q.units), len(model))
				}
				if n, want := blocked(), max(0, len(model)-q.room); n != want {
					t.Fatalf("%d are held up, want %d", n, want)
				}
			},
		})
	})
}
