package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/provetrace/provetrace/convert/whatif"
	"github.com/provetrace/provetrace/prover"
)

// ForecastText writes a forecast: how far its predictions are off for what the
// run did, a table of them, and what they rest on.
func ForecastText(w io.Writer, f *whatif.Forecast, o TextOptions) error {
	p := pen{width: WaterfallOptions{Width: o.Width}.withDefaults().Width, color: o.Color}
	p.sentence(styleBold, Sanitize(f.Name)+": "+settingsText(f.Own.Settings)+".")
	p.sentence(styleNone, Trust(f))
	tb := &table{title: "what if", head: []string{"s/proof", "change", "overall", "busy", "kernels", "synthesis"}}
	row := func(name, change string, of *whatif.Outcome) {
		tb.add(name, seconds(of.SecondsPerProof.Steady), change, seconds(of.SecondsPerProof.Overall),
			percent(of.Utilization), percent(of.KernelUtilization), percent(of.SynthesisUtilization))
	}
	row("as it was, measured", "", &f.Measured)
	row("as it was, predicted", "", &f.Own.Outcome)
	for i := range f.Others {
		p := &f.Others[i]
		row(DifferenceText(f.Own.Settings, p.Settings), signedPercent(f.Change(p)), &p.Outcome)
	}
	tb.notes = append(tb.notes,
		"s/proof: in the steady state. change: against the prediction for the run as it was. busy, kernels: of the devices' active windows. synthesis: how busy its workers are.")
	p.tables(o.ASCII, tb)
	for _, note := range f.Notes {
		p.note(Sanitize(note))
	}
	_, err := w.Write(p.out.Bytes())
	return err
}

func seconds(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 2, 64)
}

// Trust says in a sentence how far the predictions are to be trusted.
func Trust(f *whatif.Forecast) string {
	off := f.Off()
	if off == nil {
		return "Without a whole proof the predictions cannot be held against what the run did."
	}
	return fmt.Sprintf("For these settings the prediction is %.2f s a proof, %s off the %.2f s that were measured. Others are no more exact, and less so the more they change.",
		f.Own.Outcome.Rate(), strings.TrimLeft(fmt.Sprintf("%+.1f%%", 100**off), "+-"), f.Measured.Rate())
}

// settingsText says what settings are.
func settingsText(s whatif.Settings) string {
	words := []string{
		countOf(s.SynthesisWorkers, "synthesis worker"), countOf(s.Devices, "device"),
		countOf(s.WorkersPerDevice, "worker") + " a device", modes[s.Mode], finishes[s.InlineFinish],
	}
	return strings.Join(words, ", ")
}

var (
	modes    = map[prover.Mode]string{prover.Partition: "partitions", prover.Sector: "whole sectors"}
	finishes = map[bool]string{true: "inline finish", false: "split finish"}
)

// DifferenceText says in what settings differ from those of a run.
func DifferenceText(from, to whatif.Settings) string {
	var words []string
	add := func(differs bool, text string) {
		if differs {
			words = append(words, text)
		}
	}
	add(from.SynthesisWorkers != to.SynthesisWorkers, countOf(to.SynthesisWorkers, "synthesis worker"))
	add(from.Devices != to.Devices, countOf(to.Devices, "device"))
	add(from.WorkersPerDevice != to.WorkersPerDevice, countOf(to.WorkersPerDevice, "worker")+" a device")
	add(from.Mode != to.Mode, modes[to.Mode])
	add(from.InlineFinish != to.InlineFinish, finishes[to.InlineFinish])
	for _, f := range to.Faster {
		words = append(words, f.String())
	}
	return strings.Join(words, ", ")
}

// ForecastJSON returns what a forecast is as JSON.
func ForecastJSON(f *whatif.Forecast) any {
	type settings struct {
		SynthesisWorkers int                `json:"synthesis_workers"`
		WorkersPerDevice int                `json:"workers_per_device"`
		Devices          int                `json:"devices"`
		Mode             prover.Mode        `json:"mode"`
		Finish           string             `json:"finish"`
		Faster           map[string]float64 `json:"faster"`
	}
	type prediction struct {
		Settings settings `json:"settings"`
		whatif.Outcome
		ChangePercent *float64 `json:"change_percent"` // null for the run's own settings
	}
	of := func(p *whatif.Prediction) prediction {
		s := p.Settings
		all := prediction{Outcome: p.Outcome, Settings: settings{
			s.SynthesisWorkers, s.WorkersPerDevice, s.Devices, s.Mode, finishName(s), map[string]float64{},
		}}
		for _, factor := range s.Faster {
			all.Settings.Faster[factor.Phase] = factor.By
		}
		return all
	}
	all := struct {
		Name         string         `json:"name"`
		Measured     whatif.Outcome `json:"measured"`
		Predicted    prediction     `json:"predicted"` // for the same settings
		ErrorPercent *float64       `json:"error_percent"`
		Predictions  []prediction   `json:"predictions"`
		Notes        []string       `json:"notes"`
	}{f.Name, f.Measured, of(&f.Own), inPercent(f.Off()), []prediction{}, append([]string{}, f.Notes...)}
	for i := range f.Others {
		p := of(&f.Others[i])
		p.ChangePercent = inPercent(f.Change(&f.Others[i]))
		all.Predictions = append(all.Predictions, p)
	}
	return all
}

func finishName(s whatif.Settings) string {
	if s.InlineFinish {
		return "inline"
	}
	return "split"
}

func inPercent(share *float64) *float64 {
	if share == nil {
		return nil
	}
	percent := 100 * *share
	return &percent
}

// forecastHead names the columns of a forecast as CSV.
var forecastHead = []string{
	"run", "row", "synthesis_workers", "workers_per_device", "devices", "mode", "finish", "faster", "proofs",
	"seconds_per_proof_steady", "seconds_per_proof_overall", "change_percent", "error_percent", "makespan_ms",
	"utilization_active", "kernel_utilization_active", "synthesis_utilization",
}

// ForecastCSV writes forecasts as a table for programs: of each run what was
// measured, the prediction for the same settings, and the others.
func ForecastCSV(w io.Writer, all ...*whatif.Forecast) error {
	out := csv.NewWriter(w)
	records := [][]string{forecastHead}
	for _, f := range all {
		add := func(row string, s whatif.Settings, o *whatif.Outcome, change, off *float64) {
			var factors []string
			for _, factor := range s.Faster {
				factors = append(factors, factor.String())
			}
			mode, _ := s.Mode.MarshalText() // of a mode that there is
			records = append(records, []string{
				cell(f.Name), row, strconv.Itoa(s.SynthesisWorkers), strconv.Itoa(s.WorkersPerDevice), strconv.Itoa(s.Devices),
				string(mode), finishName(s), strings.Join(factors, ","), strconv.Itoa(o.Proofs),
				exact(o.SecondsPerProof.Steady), exact(o.SecondsPerProof.Overall), exact(inPercent(change)), exact(inPercent(off)),
				strconv.FormatInt(o.MakespanMS, 10), exact(o.Utilization), exact(o.KernelUtilization), exact(o.SynthesisUtilization),
			})
		}
		add("measured", f.Own.Settings, &f.Measured, nil, nil)
		add("predicted", f.Own.Settings, &f.Own.Outcome, nil, f.Off())
		for i := range f.Others {
			p := &f.Others[i]
			add("predicted", p.Settings, &p.Outcome, f.Change(p), nil)
		}
	}
	return out.WriteAll(records)
}
