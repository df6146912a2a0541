package timeline

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pureLog returns a log of n lines, all of them events.
func pureLog(n int) []byte {
	var b []byte
	jobs := []string{
		"db5b5fab-8f4d-4e27-9da1-494c73cf256d", "73ab4876-7734-47c1-87fd-e805ec99108d",
		"309d6b79-965e-4a32-9ae4-45508201e2bd", "2fa91425-cb00-4853-9d2c-67eda13ffe79",
	}
	for i := range n {
		e := Event{
			Offset:    int64(100000 + 7*i),
			Kind:      Kind(1 + i*5%7),
			Partition: int32(i * 3 % 10),
			Worker:    int32(i & 1),
			Duration:  int64(4000 + i*13%4000),
			Job:       []byte(jobs[i/10%len(jobs)]),
		}
		b = e.AppendTo(b)
	}
	return b
}

const noiseLine = "2026-02-18T14:59:43.232822Z  INFO cuzk_core::engine: partition synthesis complete, pushing job_id=db5b5fab-8f4d\n"

// noisyLog returns a log in which n events have 30 other lines each.
func noisyLog(n int) []byte {
	var b []byte
	for line := range bytes.Lines(pureLog(n)) {
		b = append(b, strings.Repeat(noiseLine, 30)...)
		b = append(b, line...)
	}
	return b
}

// prefixed returns the log with a prefix before each line.
func prefixed(log []byte, prefix string) []byte {
	var b []byte
	for line := range bytes.Lines(log) {
		b = append(append(b, prefix...), line...)
	}
	return b
}

func BenchmarkReader(b *testing.B) {
	tests := []struct {
		name     string
		log      []byte
		keepText bool
	}{
		{"pure", pureLog(100_000), false},
		{"pure/KeepText", pureLog(100_000), true},
		{"noisy", noisyLog(5_000), false},
		{"noisy/KeepText", noisyLog(5_000), true},
		{"journald", prefixed(pureLog(50_000), "2026-02-18T12:00:01.500311+0000 prover01 cuzk-daemon[4242]: "), false},
		{"torn", tornLog(20_000), false},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			lines := bytes.Count(tt.log, newline)
			src := bytes.NewReader(nil)
			r := NewReader(src, "")
			r.KeepText(tt.keepText)
			b.SetBytes(int64(len(tt.log)))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(tt.log)
				r.Reset(nil, src, "")
				for r.Scan() {
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(lines), "ns/line")
		})
	}
}

// tornLog returns a log of n pairs of lines, each torn.
func tornLog(n int) []byte {
	var b []byte
	lines := bytes.SplitAfter(pureLog(2*n), newline)
	for i := range n {
		head, intruder := lines[2*i], lines[2*i+1]
		b = append(b, head[:16]...)
		b = append(append(b, intruder...), head[16:]...)
	}
	return b
}

func BenchmarkPrefixTime(b *testing.B) {
	ref := time.Date(2026, 2, 19, 0, 0, 0, 0, time.UTC)
	for _, tt := range prefixTests {
		b.Run(strings.ReplaceAll(tt.name, " ", "_"), func(b *testing.B) {
			r := Record{Prefix: []byte(tt.prefix)}
			b.ReportAllocs()
			for b.Loop() {
				r.PrefixTime(ref)
			}
		})
	}
}

func BenchmarkWriter(b *testing.B) {
	w := NewWriter(io.Discard)
	e := Event{
		Offset: 44176, Kind: GPUEnd, Worker: 1, Partition: 3, Duration: 6449,
		Job: []byte("db5b5fab-8f4d-4e27-9da1-494c73cf256d"),
	}
	b.SetBytes(int64(len(e.AppendTo(nil))))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStripANSI(b *testing.B) {
	src := []byte("\x1b[2m2026-02-18T14:59:07.163456Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2mcuzk_core::engine\x1b[0m\x1b[2m:\x1b[0m " +
		"pipeline GPU worker started \x1b[3mworker_id\x1b[0m\x1b[2m=\x1b[0m" + strconv.Itoa(0))
	var dst []byte
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		dst = StripANSI(dst[:0], src)
	}
}
