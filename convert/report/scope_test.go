package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

func TestScopeText(t *testing.T) {
	r := &run.Run{Sectors: []*run.Sector{{Job: "porep-1000-42", Attempt: 1}, {Job: "porep-1000-42", Attempt: 2}, {Job: "\u202eb", Attempt: 1}}}
	first := func(s *run.Sector) bool { return s.Job == r.Sectors[0].Job }
	all := func(*run.Sector) bool { return true }
	for want, s := range map[string]figures.Scope{
		"":                                 {},
		"from 2:00.000 of the run's clock": {From: 120_000},
		"until 1.500 s of the run's clock": {To: 1500},
		"24:00:00.000 to 25:00:00.001 of the run's clock": {From: 86_400_000, To: 90_000_001},
		"sector 42 only": {Only: first},
		"2 sectors only": {Only: all},
		"0 sectors only": {Only: func(*run.Sector) bool { return false }},
	} {
		require.Equal(t, want, ScopeText(r, s))
	}
}
