package run

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// jobs numbers the job ids of a log.
type jobs struct {
	seed     maphash.Seed
	byHash   map[uint64]int32 // an id whose hash is taken has the next free one
	names    []string
	attempts []int32 // at each job so far, in all runs of the log
}

func newJobs() jobs { return jobs{seed: maphash.MakeSeed(), byHash: make(map[uint64]int32)} }

// of returns the numbers of the ids in a table, in room if there is enough.
func (j *jobs) of(t *idTable, room []int32) []int32 {
	numbers := room[:0]
	text := string(t.text) // most of it is new, and kept
	from := int32(0)
	for _, end := range t.ends {
		numbers = append(numbers, j.number(text[from:end]))
		from = end
	}
	return numbers
}

func (j *jobs) number(id string) int32 {
	hash := maphash.String(j.seed, id)
	for ; ; hash++ {
		n, taken := j.byHash[hash]
		if !taken {
			break
		}
		if j.names[n] == id {
			return n
		}
	}
	n := int32(len(j.names))
	j.names = append(doubled(j.names, 1), id)
	j.byHash[hash] = n
	return n
}

// doubled returns s with room for some more, of twice its size at least if it has
// to grow: what append adds would make five times the garbage.
func doubled[T any](s []T, more int) []T {
	if more <= cap(s)-len(s) {
		return s
	}
	return slices.Grow(s, max(more, len(s)))
}

// attempt counts a further attempt at a job.
func (j *jobs) attempt(n int32) int {
	if more := int(n) + 1 - len(j.attempts); more > 0 {
		j.attempts = append(doubled(j.attempts, more), make([]int32, more)...)
	}
	j.attempts[n]++
	return int(j.attempts[n])
}

// An idTable numbers the job ids of a batch. An id that comes back after many
// others can have several numbers.
type idTable struct {
	text   []byte  // of the ids, one after the other
	ends   []int32 // in text
	recent [2 * idSlots]recentID
}

const idSlots = 256 // of two ids each

type recentID struct {
	from, end int32 // in text
	n         int32
}

func (t *idTable) reset() {
	t.text, t.ends = t.text[:0], t.ends[:0]
	t.recent = [len(t.recent)]recentID{}
}

// of returns the number of an id.
func (t *idTable) of(id []byte) int32 {
	// The ids of a log differ in the end most of all.
	var hash uint64
	if n := len(id); n >= 8 {
		hash = binary.LittleEndian.Uint64(id[n-8:])
	} else {
		for _, c := range id {
			hash = hash<<8 | uint64(c)
		}
	}
	at := hash * 0x9e3779b97f4a7c15 >> 56 * 2
	slots := t.recent[at : at+2]
	for i := range slots {
		if r := &slots[i]; r.end > 0 && string(t.text[r.from:r.end]) == string(id) {
			return r.n
		}
	}
	slots[1] = slots[0]
	slots[0] = recentID{int32(len(t.text)), int32(len(t.text) + len(id)), int32(len(t.ends))}
	t.text = append(t.text, id...)
	t.ends = append(t.ends, slots[0].end)
	return slots[0].n
}
