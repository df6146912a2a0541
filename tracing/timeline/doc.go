// Package timeline reads and writes the cuzk engine's TIMELINE log.
//
// The engine writes a line to stderr for each point of its pipeline that a
// partition passes:
//
//	TIMELINE,<offset_ms>,<event>,<job_id>,<detail>
//	TIMELINE,40985,GPU_START,db5b5fab-8f4d-4e27-9da1-494c73cf256d,worker=0,partition=5
//
// offset_ms counts whole milliseconds from the engine's start on a monotonic
// clock; the detail holds key=value pairs in an order of the event's own, and
// may be empty.
//
// What goes into a [Reader] is a log as captures leave it: TIMELINE lines
// among any others, behind the prefixes of journald, syslog, Kubernetes or
// docker compose, with ANSI colours, CRLF, binary runs, lines of any length
// and lines that other writers have torn. What comes out are [Record] values in the
// file's order: an [Event], or a malformed line with its number and what is
// wrong with it. Every occurrence of the marker "TIMELINE," ends up in one or
// the other. The other lines are skipped unless asked for. Memory stays
// bounded whatever the input.
//
// A [Writer] takes events and writes lines that the Reader, and whatever else
// reads the engine's log, understands.
//
// The package knows nothing of what the events mean together: pairing them
// into intervals is left to its callers.
package timeline
