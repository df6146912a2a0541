package jaeger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/tracing/jaeger"
)

func Example() {
	ui, err := jaeger.Parse("http://localhost:16686/")
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 2, 18, 14, 59, 7, 0, time.UTC)
	fmt.Println(ui.Trace("3f275361deae7b22a9afd7fb980e40be"))
	fmt.Println(ui.Search("prover", "prove sector", at, at.Add(time.Minute)))
	// Output:
	// http://localhost:16686/trace/3f275361deae7b22a9afd7fb980e40be
	// http://localhost:16686/search?end=1771426808000000&limit=200&lookback=custom&operation=prove+sector&service=prover&start=1771426746000000
}

func TestParse(t *testing.T) {
	for _, good := range []string{"http://localhost:16686", "https://traces.example.com/jaeger"} {
		ui, err := jaeger.Parse(good)
		require.NoError(t, err)
		require.Equal(t, good+"/trace/1", ui.Trace("1"))
	}
	for _, bad := range []string{"", "localhost", "localhost:16686", "ftp://localhost", "http://", "http://x/?q=1", "http://x/#y", "http://[", "\x00"} {
		ui, err := jaeger.Parse(bad)
		require.ErrorContains(t, err, "is not the URL of a page, such as http://localhost:16686")
		require.Empty(t, ui.Trace("1"))
		require.Empty(t, ui.Search("prover", "prove sector", time.Time{}, time.Time{}))
	}
}
