package timeline

import (
	"strconv"
	"strings"
	"testing"
)

func TestStitch(t *testing.T) {
	const (
		job1 = "db5b5fab-8f4d-4e27-9da1-494c73cf256d"
		job2 = "73ab4876-7734-47c1-87fd-e805ec99108d"
	)
	text := func(s string) string { return `"` + s + `"` }
	filler := strings.Repeat("x\n", window)
	fillers := func(first, last int) (s []string) {
		for i := first; i <= last; i++ {
			s = append(s, strings.Replace(`# | "x"`, "#", strconv.Itoa(i), 1))
		}
		return s
	}
	tests := []struct {
		name string
		log  string
		want []string
	}{
		{
			"after the offset",
			"TIMELINE,1500," + start2 + "\nSYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1, "1 " + start2},
		},
		{
			"after the marker",
			"TIMELINE," + start2 + "\n1500,SYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1, "1 " + start2},
		},
		{
			"inside the marker",
			"TIMEL" + start2 + "\nINE,1500,SYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1, "1 " + start2 + ` after "TIMEL"`},
		},
		{
			"inside the marker, after a prefix",
			"cuzk-1  | TIMEL" + start2 + "\ncuzk-1  | INE,1500,SYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1 + ` after "cuzk-1  | "`, "1 " + start2 + ` after "cuzk-1  | TIMEL"`},
		},
		{
			"what only looks like a part of the marker",
			"INFO SET" + start2 + "\nx\n",
			[]string{"1 " + start2 + ` after "INFO SET"`, `2 | "x"`},
		},
		{
			"inside the job",
			"TIMELINE,1,GPU_START," + job1[:16] + gpuEnd + "\n" + job1[16:] + ",worker=1,partition=0\n",
			[]string{"1 +TIMELINE,1,GPU_START," + job1 + ",worker=1,partition=0", "1 " + gpuEnd},
		},
		{
			"inside a number",
			"TIMELINE,1500,SYNTH_START,job,partition=1" + start2 + "\n0\n",
			[]string{"1 +TIMELINE,1500,SYNTH_START,job,partition=10", "1 " + start2},
		},
		{
			"a lost newline",
			start1 + start2 + "\n" + gpuEnd + "\nx\n",
			[]string{"1 " + start1, "1 " + start2, "2 " + gpuEnd, `3 | "x"`},
		},
		{
			"a late newline",
			start1 + start2 + "\n\n" + gpuEnd + "\n",
			[]string{"1 " + start1, "1 " + start2, `2 | ""`, "3 " + gpuEnd},
		},
		{
			"a cut kind without its rest",
			"TIMELINE,1500,SYNTH_START,job,kind=porep" + start2 + "\n",
			[]string{`1 ! cut short: "TIMELINE,1500,SYNTH_START,job,kind=porep"`, "1 " + start2},
		},
		{
			"a kind's rest",
			"TIMELINE,1500,SYNTH_START,job,kind=porep" + start2 + "\n-c2\n",
			[]string{"1 +TIMELINE,1500,SYNTH_START,job,kind=porep-c2", "1 " + start2},
		},
		{
			"a line break alone",
			"TIMELINE,1500,SYNTH_\nSTART,job,partition=1\n" + start2 + "\n",
			[]string{"1 +" + start1, "3 " + start2},
		},
		{
			"CUDA's line",
			"TIMELINE,1500," + cuda + "\nSYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1, "1 | " + text(cuda)},
		},
		{
			"CUDA's line after a whole one",
			start1 + cuda + "\nx\n",
			[]string{"1 " + start1, "1 | " + text(cuda), `2 | "x"`},
		},
		{
			"the engine's line",
			"TIMELINE,15" + engine + "\n00,SYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1, "1 | " + text(engine)},
		},
		{
			"the engine's line in colour",
			"TIMELINE,1500,SYNTH_START,jo" + ansi + "\nb,partition=1\n",
			[]string{"1 +" + start1, "1 | " + text("2026-02-18T14:59:07.123856Z  INFO cuzk_daemon: starting")},
		},
		{
			"behind a prefix",
			"2026-02-18T12:00:01+0000 host cuzk[1]: TIMELINE,1500," + start2 + "\n2026-02-18T12:00:01+0000 host cuzk[1]: SYNTH_START,job,partition=1\n",
			[]string{
				"1 +" + start1 + ` after "2026-02-18T12:00:01+0000 host cuzk[1]: "`,
				"1 " + start2 + ` after "2026-02-18T12:00:01+0000 host cuzk[1]: "`,
			},
		},
		{
			"a few lines later",
			"TIMELINE,1500," + start2 + "\n" + engine + "\n" + gpuEnd + "\nSYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1, "1 " + start2, "2 | " + text(engine), "3 " + gpuEnd},
		},
		{
			"on the last line of the window",
			"TIMELINE,1500," + start2 + "\n" + filler[2:] + "SYNTH_START,job,partition=1\n",
			append([]string{"1 +" + start1, "1 " + start2}, fillers(2, 8)...),
		},
		{
			"too late",
			"TIMELINE,1500," + start2 + "\n" + filler + "SYNTH_START,job,partition=1\n",
			append(append([]string{`1 ! cut short: "TIMELINE,1500,"`, "1 " + start2}, fillers(2, 9)...),
				`10 | "SYNTH_START,job,partition=1"`),
		},
		{
			"never",
			"TIMELINE,1500," + start2 + "\n" + gpuEnd + "\n",
			[]string{`1 ! cut short: "TIMELINE,1500,"`, "1 " + start2, "2 " + gpuEnd},
		},
		{
			"two heads of which each has its own tail",
			"TIMELINE,1,TIMELINE,2,GPU_START," + job1[:9] + gpuEnd + "\n" + job1[9:] + ",worker=1\nSYNTH_START," + job2 + ",partition=1\n",
			[]string{
				"1 +TIMELINE,1,SYNTH_START," + job2 + ",partition=1",
				"1 +TIMELINE,2,GPU_START," + job1 + ",worker=1",
				"1 " + gpuEnd,
			},
		},
		{
			"two heads that could have either tail",
			"TIMELINE,1," + gpuEnd + "\nTIMELINE,2," + gpuEnd + "\nCHAN_SEND,a,\nCHAN_SEND,b,\n",
			[]string{
				`1 ! torn, and its rest cannot be told from another's: "TIMELINE,1,"`, "1 " + gpuEnd,
				`2 ! torn, and its rest cannot be told from another's: "TIMELINE,2,"`, "2 " + gpuEnd,
				`3 ! torn, and its rest cannot be told from another's: "CHAN_SEND,a,"`,
				`4 ! torn, and its rest cannot be told from another's: "CHAN_SEND,b,"`,
			},
		},
		{
			"two heads alike",
			"TIMELINE,1500,TIMELINE,1500," + gpuEnd + "\nSYNTH_START,job,partition=1\nSYNTH_START,job,partition=2\n",
			[]string{"1 +" + start1, "1 +TIMELINE,1500,SYNTH_START,job,partition=2", "1 " + gpuEnd},
		},
		{
			"two heads alike, one tail",
			"TIMELINE,1500,TIMELINE,1500," + gpuEnd + "\nSYNTH_START,job,partition=1\n",
			[]string{"1 +" + start1, `1 ! cut short: "TIMELINE,1500,"`, "1 " + gpuEnd},
		},
		{
			"two heads alike, three tails",
			"TIMELINE,1,TIMELINE,1," + gpuEnd + "\nCHAN_SEND,a,\nCHAN_SEND,b,\nCHAN_SEND,c,\n",
			[]string{
				`1 ! torn, and its rest cannot be told from another's: "TIMELINE,1,"`,
				`1 ! torn, and its rest cannot be told from another's: "TIMELINE,1,"`, "1 " + gpuEnd,
				`2 ! torn, and its rest cannot be told from another's: "CHAN_SEND,a,"`,
				`3 ! torn, and its rest cannot be told from another's: "CHAN_SEND,b,"`,
				`4 ! torn, and its rest cannot be told from another's: "CHAN_SEND,c,"`,
			},
		},
		{
			"each head's tail before the next head",
			"TIMELINE,1500," + gpuEnd + "\nSYNTH_START,job,partition=1\nTIMELINE,1501," + gpuEnd + "\nSYNTH_START,job,partition=2\n",
			[]string{"1 +" + start1, "1 " + gpuEnd, "3 +" + start2, "3 " + gpuEnd},
		},
		{
			"two heads, one tail",
			"TIMELINE,1," + gpuEnd + "\nTIMELINE,2," + gpuEnd + "\nCHAN_SEND,a,\n",
			[]string{
				`1 ! torn, and its rest cannot be told from another's: "TIMELINE,1,"`, "1 " + gpuEnd,
				`2 ! torn, and its rest cannot be told from another's: "TIMELINE,2,"`, "2 " + gpuEnd,
				`3 ! torn, and its rest cannot be told from another's: "CHAN_SEND,a,"`,
			},
		},
		{
			"one head, two tails",
			"TIMELINE,1," + gpuEnd + "\nCHAN_SEND,a,\nCHAN_SEND,b,\n",
			[]string{
				`1 ! torn, and its rest cannot be told from another's: "TIMELINE,1,"`, "1 " + gpuEnd,
				`2 ! torn, and its rest cannot be told from another's: "CHAN_SEND,a,"`,
				`3 ! torn, and its rest cannot be told from another's: "CHAN_SEND,b,"`,
			},
		},
		{
			"a tail without a head",
			"SYNTH_START,job,partition=1\n" + start2 + "\n",
			[]string{`1 | "SYNTH_START,job,partition=1"`, "2 " + start2},
		},
		{
			"a tail that the file ends in",
			"TIMELINE,1500," + start2 + "\nSYNTH_START,job,partition=1",
			[]string{`1 ! the file ends inside this line: "TIMELINE,1500,"`, "1 " + start2},
		},
		{
			"a tail that is not as the engine writes it",
			"TIMELINE,1500," + start2 + "\nSYNTH_START,job,partition=01\nSYNTH_START,a job,partition=1\n",
			[]string{
				`1 ! cut short: "TIMELINE,1500,"`, "1 " + start2,
				`2 | "SYNTH_START,job,partition=01"`, `3 | "SYNTH_START,a job,partition=1"`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { testScan(t, tt.log, tt.want) })
	}
}

// However densely a log is torn, the pieces that fit in one way only are
// joined.
func TestStitchDense(t *testing.T) {
	const n = 3000
	for name, log := range map[string]string{
		"different heads": string(tornLog(n)),
		"heads alike":     strings.Repeat("TIMELINE,1,"+start1+"\nCHAN_SEND,a,\n", n),
		"by a line more":  strings.Repeat("x\nTIMELINE,1,"+start1+"\n\nCHAN_SEND,a,\n", n),
		"two at a time":   strings.Repeat("TIMELINE,1,\nTIMELINE,1,"+start1+"\nCHAN_SEND,a,\nCHAN_SEND,b,\n", n),
	} {
		r := NewReader(strings.NewReader(log), "")
		for r.Scan() {
		}
		want := Stats{Bytes: int64(len(log)), Lines: int64(strings.Count(log, "\n")), Events: 2 * n, Stitched: n}
		if name == "two at a time" {
			want.Events, want.Stitched = 3*n, 2*n
		}
		if got := r.Stats(); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
