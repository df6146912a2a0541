package run

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
)

func TestMem(t *testing.T) {
	name := os.Getenv("MEMLOG")
	if name == "" {
		t.Skip()
	}
	for u, err := range Read(t.Context(), name, Options{}, fileSource(name)) {
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("heap %d MB in use %d, sys %d, sectors %d\n", m.HeapAlloc>>20, m.HeapInuse>>20, m.Sys>>20, len(u.Sectors))
		f, _ := os.Create("/tmp/heap.prof")
		pprof.WriteHeapProfile(f)
		f.Close()
		runtime.KeepAlive(u)
	}
}
