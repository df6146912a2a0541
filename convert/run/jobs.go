package run

import "sync"

// jobs numbers the job ids of a log. One goroutine numbers them, another one
// asks for the names.
type jobs struct {
	byID   map[string]int32
	recent [64]recentJob // neighbouring lines share a few jobs; by the end of the id

	mu    sync.Mutex
	names []string

	attempts []int32 // at each job so far, in all runs of the log; the assembly's
}

type recentJob struct {
	id string
	n  int32
}

// of returns the number of a job.
func (j *jobs) of(id []byte) int32 {
	// The ids of a log differ in the end most of all.
	at := 0
	if i := len(id) - 1; i > 0 {
		at = int(id[i]^id[i-1]<<3) % len(j.recent)
	}
	r := &j.recent[at]
	if r.id == string(id) && r.id != "" {
		return r.n
	}
	n, ok := j.byID[string(id)]
	if !ok {
		name := string(id)
		if j.byID == nil {
			j.byID = make(map[string]int32)
		}
		j.mu.Lock()
		n = int32(len(j.names))
		j.names = append(j.names, name)
		j.mu.Unlock()
		j.byID[name] = n
	}
	*r = recentJob{j.names[n], n}
	return n
}

// name returns the id of a job.
func (j *jobs) name(n int32) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.names[n]
}

// attempt counts a further attempt at a job.
func (j *jobs) attempt(n int32) int {
	if more := int(n) + 1 - len(j.attempts); more > 0 {
		j.attempts = append(j.attempts, make([]int32, more)...)
	}
	j.attempts[n]++
	return int(j.attempts[n])
}
