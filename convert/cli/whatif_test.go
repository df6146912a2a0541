package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestWhatIf holds the predictions for people, and what is refused, against
// golden files. Time is simulated, so that they are the same at each call.
func TestWhatIf(t *testing.T) {
	for _, test := range []struct {
		name     string
		fixtures []string
		calls    []string
	}{
		{"what-if", []string{"dual_worker_noisy", "curio", "standard", "dirty_restart"}, []string{
			"what-if dual_worker_noisy.log",
			"what-if dual_worker_noisy.log --synthesis-workers 5,12 --workers-per-device 1,2",
			"what-if dual_worker_noisy.log --mode partition,sector --finish split,inline",
			"what-if curio.log --devices 2 --faster device=1.5x,synthesis=2 --faster gpu=2",
			"what-if dirty_restart.log --devices 2",
			"what-if standard.log --format csv",
		}},
		{"what-if-usage", []string{"standard"}, []string{
			"what-if",
			"what-if standard.log --format html",
			"what-if standard.log --devices 0",
			"what-if standard.log --devices 1,,2",
			"what-if standard.log --mode both",
			"what-if standard.log --finish late",
			"what-if standard.log --faster device",
			"what-if standard.log --synthesis-workers 1,2,3,4,5,6,7,8,9,10,11 --devices 1,2,3,4,5,6,7,8,9,10",
			"what-if standard.log --devices 1001",
			"what-if standard.log --mode partition",
			"what-if standard.log --workers-per-device 2",
			"what-if standard.log --faster device=2",
			"what-if missing.log",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := workspace(t, test.fixtures...)
			var got strings.Builder
			for _, args := range test.calls {
				r := provetrace(t, dir, strings.Fields(args)...)
				fmt.Fprintf(&got, "$ provetrace %s\n%s", args, r.stdout)
				if r.stderr != "" {
					fmt.Fprintf(&got, "--- standard error\n%s", r.stderr)
				}
				fmt.Fprintf(&got, "--- exit code %d\n", r.code)
			}
			golden(t, test.name, got.String())
		})
	}
}

// TestWhatIfAgrees holds a log and its spans to the same predictions, and JSON
// to CSV.
func TestWhatIfAgrees(t *testing.T) {
	dir := workspace(t, "split")
	if r := provetrace(t, dir, "convert", "split.log", "-o", "spans.json"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	type outcome struct {
		SecondsPerProof struct{ Steady float64 } `json:"seconds_per_proof"`
	}
	var runs [2]struct {
		Measured, Predicted outcome
		ErrorPercent        float64 `json:"error_percent"`
		Predictions         []outcome
	}
	for i, file := range []string{"split.log", "spans.json"} {
		r := provetrace(t, dir, "what-if", file, "--format", "json")
		var got struct {
			Runs   []json.RawMessage
			Errors []string
		}
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 0 || len(got.Runs) != 1 || len(got.Errors) != 0 {
			t.Fatalf("%v %+v %s", err, got, r.stderr)
		}
		if err := json.Unmarshal(got.Runs[0], &runs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := fmt.Sprint(runs[0]), fmt.Sprint(runs[1]); a != b {
		t.Errorf("the log gives %s\nits spans %s", a, b)
	}
	if len(runs[0].Predictions) < 10 || math.Abs(runs[0].ErrorPercent) > 3 {
		t.Errorf("%+v", runs[0])
	}
	if r := provetrace(t, dir, "what-if", "split.log", "--format", "csv", "-o", "out.csv"); r.code != 0 || r.stdout != "" {
		t.Fatal(r.stderr)
	}
	records, err := csv.NewReader(strings.NewReader(provetrace(t, dir, "what-if", "split.log", "--format", "csv").stdout)).ReadAll()
	if err != nil || len(records) != len(runs[0].Predictions)+3 {
		t.Fatal(err, len(records))
	}
	for i, p := range runs[0].Predictions {
		if got := fmt.Sprint(p.SecondsPerProof.Steady); got != records[i+3][9] {
			t.Errorf("row %d: %s in JSON, %s in CSV", i, got, records[i+3][9])
		}
	}
}
