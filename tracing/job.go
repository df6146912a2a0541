package tracing

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// ParseJob reads the miner's actor id and the sector number from a job id as
// Curio makes them, porep-MINER-SECTOR or snap-MINER-SECTOR.
func ParseJob(job string) (miner, sector uint64, ok bool) {
	rest, isPoRep := strings.CutPrefix(job, "porep-")
	if !isPoRep {
		var isSnap bool
		if rest, isSnap = strings.CutPrefix(job, "snap-"); !isSnap {
			return 0, 0, false
		}
	}
	m, s, found := strings.Cut(rest, "-")
	if !found {
		return 0, 0, false
	}
	miner, errM := strconv.ParseUint(m, 10, 63)
	sector, errS := strconv.ParseUint(s, 10, 63)
	if errM != nil || errS != nil {
		return 0, 0, false
	}
	return miner, sector, true
}

// SectorLabel returns the short name of a job's sector: its number, else the
// first 8 characters of the job id.
func SectorLabel(job string) string {
	if _, sector, ok := ParseJob(job); ok {
		return strconv.FormatUint(sector, 10)
	}
	n := 0
	for i := range job {
		if n == 8 {
			return job[:i]
		}
		n++
	}
	return job
}

// append appends what is known of a sector, as attributes.
func (info *SectorInfo) append(attrs []attribute.KeyValue) []attribute.KeyValue {
	attrs = append(attrs, JobID.String(info.Job), Attempt.Int(info.Attempt))
	if info.ProofKind != "" {
		attrs = append(attrs, ProofKind.String(info.ProofKind))
	}
	if miner, sector, ok := ParseJob(info.Job); ok {
		attrs = append(attrs, MinerID.Int64(int64(miner)), SectorNumber.Int64(int64(sector)))
	}
	if info.Partitions > 0 {
		attrs = append(attrs, PartitionCount.Int(info.Partitions))
	}
	return attrs
}
