// Package report shows what a run tells: as a waterfall and a report for the
// terminal, as JSON, and runs beside each other.
//
// In go the model of a run, its figures, or a comparison of several; out comes
// text that a terminal shows and does nothing else with. It computes no figures,
// but has the words for them. The pages and traces for other viewers are in its
// subpackages.
package report
