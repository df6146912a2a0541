package prover

import "slices"

// A queue holds the synthesized units that no worker has taken, in their order.
// Those beyond its room hold up the synthesis workers that offer them, but are
// taken in their turn all the same.
type queue struct {
	room   int
	units  []*unit
	inside int // of them, within the room
}

// push adds a unit.
func (q *queue) push(u *unit) {
	at, _ := slices.BinarySearchFunc(q.units, u, (*unit).compare)
	q.units = slices.Insert(q.units, at, u)
	q.admit()
}

// pop takes the first unit, or nil.
func (q *queue) pop() *unit {
	if len(q.units) == 0 {
		return nil
	}
	u := q.units[0]
	q.units = slices.Delete(q.units, 0, 1)
	q.leave(u)
	q.admit()
	return u
}

// remove takes out all units of a sector.
func (q *queue) remove(s *sector) []*unit {
	var removed []*unit
	q.units = slices.DeleteFunc(q.units, func(u *unit) bool {
		if u.s != s {
			return false
		}
		q.leave(u)
		removed = append(removed, u)
		return true
	})
	q.admit()
	return removed
}

func (q *queue) leave(u *unit) {
	if u.inside {
		q.inside--
	} else {
		close(u.admitted)
	}
}

// admit lets in units while there is room.
func (q *queue) admit() {
	for _, u := range q.units {
		if q.inside >= q.room {
			return
		}
		if !u.inside {
			u.inside = true
			q.inside++
			close(u.admitted)
		}
	}
}
