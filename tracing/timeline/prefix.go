package timeline

import (
	"bytes"
	"time"
)

// PrefixTime returns the wall-clock time that the capture put before the line,
// in UTC, and the resolution with which it is written. It knows
//
//	Feb 18 12:00:01 host proc[1]:               journalctl short and short-precise, syslog (RFC 3164)
//	2026-02-18T12:00:01.500311+0000 host …      journalctl short-iso, short-iso-precise
//	Wed 2026-02-18 12:00:01 UTC host …          journalctl short-full, in UTC
//	1771426747.123456 host proc[1]:             journalctl short-unix
//	<34>1 2026-02-18T12:00:01.003Z host …       syslog (RFC 5424), and <34>Feb 18 …
//	2026-02-18T12:00:01.500311000Z stderr F     Kubernetes CRI, kubectl logs --timestamps
//	[pod/cuzk-0/cuzk] 2026-02-18T12:00:01Z      kubectl logs --prefix --timestamps
//	cuzk-1  | 2026-02-18T12:00:01.500311000Z    docker compose logs -t
//
// with or without ANSI colours. A time without a zone is taken as UTC. One
// without a year is placed in the latest year in which it is not after ref by
// more than a day; without a ref it is not known. ok is false where there is
// no time.
//
// Of a TextRecord it reads the start of the line.
func (r *Record) PrefixTime(ref time.Time) (t time.Time, resolution time.Duration, ok bool) {
	if r.Type == TextRecord {
		return prefixTime(r.Text[:min(len(r.Text), maxPrefix)], ref)
	}
	return prefixTime(r.Prefix, ref)
}

func prefixTime(b []byte, ref time.Time) (t time.Time, resolution time.Duration, ok bool) {
	b = skipBlank(b)
	if len(b) < 15 {
		return t, 0, false
	}
	switch b[0] {
	case '<':
		// RFC 3164 and 5424: a priority, in the latter with a version.
		i := bytes.IndexByte(b[:5], '>')
		if i < 0 {
			return t, 0, false
		}
		b = b[i+1:]
		if len(b) > 2 && b[1] == ' ' && digit(b[0]) {
			b = b[2:]
		}
		return clock(b, ref)
	case '[':
		i := bytes.IndexByte(b, ' ')
		if i < 0 || b[i-1] != ']' {
			return t, 0, false
		}
		return clock(b[i+1:], ref)
	}
	if t, resolution, ok = clock(b, ref); ok {
		return t, resolution, true
	}
	if i := bytes.IndexByte(b, '|'); i > 0 && b[i-1] == ' ' {
		return clock(skipBlank(b[i+1:]), ref)
	}
	return t, 0, false
}

// skipBlank drops the escape sequences, spaces and NULs that b begins with.
func skipBlank(b []byte) []byte {
	for len(b) > 0 {
		switch b[0] {
		case esc:
			b = b[escapeLen(b):]
		case ' ', '\t', 0:
			b = b[1:]
		default:
			return b
		}
	}
	return b
}

// clock reads the time that b begins with.
func clock(b []byte, ref time.Time) (t time.Time, resolution time.Duration, ok bool) {
	if len(b) < 15 {
		return t, 0, false
	}
	if digit(b[0]) {
		if b[4] == '-' {
			t, _, resolution, ok = ParseTime(b)
			return t, resolution, ok
		}
		return unixTime(b)
	}
	if b[3] != ' ' {
		return t, 0, false
	}
	if month := monthOf(b); month != 0 {
		return shortTime(b, month, ref)
	}
	if weekday(b) && digit(b[4]) {
		t, n, resolution, ok := ParseTime(b[4:])
		zone := b[4+n:]
		if ok && b[4+n-1] != 'Z' && (len(zone) < 4 || string(zone[:4]) != " UTC") {
			return time.Time{}, 0, false // an abbreviation names no offset
		}
		return t, resolution, ok
	}
	return t, 0, false
}

// ParseTime reads the timestamp at the start of b: RFC 3339 and what comes
// close to it (a space for the T, a comma before the fraction, an offset
// without colon, no offset: UTC). It returns the time in UTC, how many bytes
// it takes, and the resolution with which it is written, at best 1 ns. ok is
// false where b begins with none, and where a letter or digit follows.
//
// The engine's own log lines begin with such a time.
func ParseTime(b []byte) (t time.Time, n int, resolution time.Duration, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[10] != 'T' && b[10] != ' ' {
		return t, 0, 0, false
	}
	century, year, month, day := pair(b, 0), pair(b, 2), pair(b, 5), pair(b, 8)
	sec, valid := secondOfDay(b[11:])
	if century|year|month|day < 0 || !valid {
		return t, 0, 0, false
	}
	year += 100 * century
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return t, 0, 0, false
	}
	nsec, n, resolution := fraction(b, 19)

	offset := 0
	if n < len(b) {
		switch c := b[n]; c {
		case 'Z', 'z':
			n++
		case '+', '-':
			if len(b)-n < 3 {
				return t, 0, 0, false
			}
			hours, minutes := pair(b, n+1), 0
			n += 3
			colon := 0
			if n < len(b) && b[n] == ':' {
				colon = 1
			}
			if n+colon < len(b) && digit(b[n+colon]) {
				if len(b)-n-colon < 2 {
					return t, 0, 0, false
				}
				minutes = pair(b, n+colon)
				n += colon + 2
			}
			if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
				return t, 0, 0, false
			}
			offset = hours*3600 + minutes*60
			if c == '-' {
				offset = -offset
			}
		}
	}
	if n < len(b) && alphanumeric(b[n]) {
		return t, 0, 0, false
	}
	unix := days(year, month, day)*86400 + sec - int64(offset)
	return time.Unix(unix, nsec).UTC(), n, resolution, true
}

// shortTime reads "Feb 18 12:00:01", whose day may be padded with a space.
func shortTime(b []byte, month int, ref time.Time) (t time.Time, resolution time.Duration, ok bool) {
	day := int(b[5]) - '0'
	if b[4] != ' ' {
		day = pair(b, 4)
	}
	sec, valid := secondOfDay(b[7:])
	if !valid || b[6] != ' ' || day < 1 || day > daysIn(2000, month) || !digit(b[5]) || ref.IsZero() {
		return t, 0, false
	}
	nsec, n, resolution := fraction(b, 15)
	if n < len(b) && alphanumeric(b[n]) {
		return t, 0, false
	}
	limit := ref.Add(24 * time.Hour).UTC()
	year := limit.Year()
	for range 9 { // a 29 February comes round after eight years at most
		if day <= daysIn(year, month) {
			unix := days(year, month, day)*86400 + sec
			if unix < limit.Unix() || unix == limit.Unix() && nsec <= int64(limit.Nanosecond()) {
				return time.Unix(unix, nsec).UTC(), resolution, true
			}
		}
		year--
	}
	return t, 0, false
}

// unixTime reads "1771426747.123456 ".
func unixTime(b []byte) (t time.Time, resolution time.Duration, ok bool) {
	sec, i := int64(0), 0
	for ; i < min(len(b), 11) && digit(b[i]); i++ {
		sec = sec*10 + int64(b[i]-'0')
	}
	if i < 9 || i == len(b) || b[i] != '.' {
		return t, 0, false
	}
	nsec, n, resolution := fraction(b, i)
	if n == i || n == len(b) || b[n] != ' ' {
		return t, 0, false
	}
	return time.Unix(sec, nsec).UTC(), resolution, true
}

// secondOfDay reads "12:00:01"; a leap second counts as the one before it.
func secondOfDay(b []byte) (sec int64, ok bool) {
	if len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return 0, false
	}
	h, m, s := pair(b, 0), pair(b, 3), pair(b, 6)
	if h|m|s < 0 || h > 23 || m > 59 || s > 60 {
		return 0, false
	}
	return int64(h*3600 + m*60 + min(s, 59)), true
}

// fraction reads the fraction of a second that may stand at b[i:], and returns
// the index of what follows.
func fraction(b []byte, i int) (nsec int64, end int, resolution time.Duration) {
	if i+1 >= len(b) || b[i] != '.' && b[i] != ',' || !digit(b[i+1]) {
		return 0, i, time.Second
	}
	unit := int64(time.Second)
	for i++; i < len(b) && digit(b[i]); i++ {
		if unit > 1 {
			unit /= 10
			nsec += int64(b[i]-'0') * unit
		}
	}
	return nsec, i, time.Duration(unit)
}

// pair returns the two-digit number at b[i:], or -1.
func pair(b []byte, i int) int {
	tens, units := b[i]-'0', b[i+1]-'0'
	if tens > 9 || units > 9 {
		return -1
	}
	return int(tens)*10 + int(units)
}

func digit(c byte) bool { return c-'0' <= 9 }

func alphanumeric(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

func monthOf(b []byte) int {
	switch uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) {
	case 'J'<<16 | 'a'<<8 | 'n':
		return 1
	case 'F'<<16 | 'e'<<8 | 'b':
		return 2
	case 'M'<<16 | 'a'<<8 | 'r':
		return 3
	case 'A'<<16 | 'p'<<8 | 'r':
		return 4
	case 'M'<<16 | 'a'<<8 | 'y':
		return 5
	case 'J'<<16 | 'u'<<8 | 'n':
		return 6
	case 'J'<<16 | 'u'<<8 | 'l':
		return 7
	case 'A'<<16 | 'u'<<8 | 'g':
		return 8
	case 'S'<<16 | 'e'<<8 | 'p':
		return 9
	case 'O'<<16 | 'c'<<8 | 't':
		return 10
	case 'N'<<16 | 'o'<<8 | 'v':
		return 11
	case 'D'<<16 | 'e'<<8 | 'c':
		return 12
	}
	return 0
}

func weekday(b []byte) bool {
	switch string(b[:3]) {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun":
		return true
	}
	return false
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// days returns the days from 1970-01-01 to the date of the proleptic Gregorian
// calendar. Years are counted from March, so that a leap day is the last.
func days(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	year += 400 // keeps the divisions below on positive numbers
	return int64(365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468 - 146097)
}
