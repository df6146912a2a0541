package timeline_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/provetrace/provetrace/tracing/timeline"
)

func ExampleReader() {
	const capture = `2026-02-18T12:00:42.485+0000 prover01 cuzk[4242]: TIMELINE,40985,GPU_START,porep-1000-4200,worker=0,partition=5
2026-02-18T12:00:42.486+0000 prover01 cuzk[4242]: CUZK_TIMING: pre_lock_cpu_ms=1245 mutex_wait_ms=0
2026-02-18T12:00:48.935+0000 prover01 cuzk[4242]: TIMELINE,47435,GPU_END,porep-1000-4200,worker=0,partition=5,gpu_ms=6449
2026-02-18T12:00:48.935+0000 prover01 cuzk[4242]: TIMELINE,47435,GPU_
`
	r := timeline.NewReader(strings.NewReader(capture), "cuzk.log")
	for r.Scan() {
		rec := r.Record()
		switch rec.Type {
		case timeline.EventRecord:
			e := &rec.Event
			fmt.Printf("%d ms: %v of %s/%d", e.Offset, e.Kind, e.Job, e.Partition)
			if t, _, ok := rec.PrefixTime(time.Now()); ok {
				offset := time.Duration(e.Offset) * time.Millisecond
				fmt.Printf(", so the engine started at %s", t.Add(-offset).Format(time.TimeOnly))
			}
			fmt.Println()
		case timeline.MalformedRecord:
			fmt.Printf("cuzk.log:%d: %s: %q\n", rec.Line, rec.Problem, rec.Text)
		}
	}
	if err := r.Err(); err != nil {
		log.Fatal(err)
	}
	s := r.Stats()
	fmt.Printf("%d lines, %d events, %d malformed\n", s.Lines, s.Events, s.Malformed)
	// Output:
	// 40985 ms: GPU_START of porep-1000-4200/5, so the engine started at 12:00:01
	// 47435 ms: GPU_END of porep-1000-4200/5, so the engine started at 12:00:01
	// cuzk.log:4: cut short: "TIMELINE,47435,GPU_"
	// 4 lines, 2 events, 1 malformed
}

func ExampleWriter() {
	w := timeline.NewWriter(os.Stdout)
	for _, e := range []timeline.Event{
		{Offset: 40900, Kind: timeline.GPUQueue, Partition: 5, Job: []byte("porep-1000-4200")},
		{Offset: 40985, Kind: timeline.GPUStart, Partition: 5, Worker: 1, Job: []byte("porep-1000-4200")},
		{Offset: 41000, Kind: timeline.GPUQueue, Partition: timeline.WholeSector, Job: []byte("wpost")},
	} {
		if err := w.Write(e); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// TIMELINE,40900,GPU_QUEUE,porep-1000-4200,partition=5
	// TIMELINE,40985,GPU_START,porep-1000-4200,worker=1,partition=5
	// TIMELINE,41000,GPU_QUEUE,wpost,monolithic
}
