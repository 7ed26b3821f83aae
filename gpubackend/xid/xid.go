// SPDX-License-Identifier: Apache-2.0

// Package xid reads from the kernel's log what NVIDIA's driver says about broken GPUs: its Xid
// messages. Those that only report a program's mistake are left out.
//
// The log is the kernel's, but contains names of programs: what is read is bounded, and made
// printable.
package xid

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// Log is where the kernel's messages are read.
const Log = "/dev/kmsg"

// Message is a message.
type Message struct {
	GPU    pcie.Address
	Number int
	Text   string        // what it says, without the program's name
	Since  time.Duration // since the host was started
}

func (e *Message) String() string { return fmt.Sprintf("Xid %d: %s", e.Number, e.Text) }

// Bounds.
const (
	mostRecords = 1 << 16
	mostEvents  = 256 // the last ones
	mostText    = 120
)

// ofPrograms are the Xids that a program's mistake causes.
var ofPrograms = map[int]bool{13: true, 31: true, 43: true, 45: true}

// message is "NVRM: Xid (PCI:0000:65:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
var message = regexp.MustCompile(`^NVRM: Xid \(PCI:` +
	`([0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.0)?\): ([0-9]{1,4}), (.*)`)

// names are the parts of a message that name a program.
var names = regexp.MustCompile(`^(?:pid=(?:'[^']*'|[^,]*), (?:name=[^,]*, )?)?`)

// Read returns the last messages in a kernel's log.
func Read(path string) ([]Message, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var all []Message
	record := make([]byte, 1<<13) // each read returns one record
	for range mostRecords {
		n, err := unix.Read(fd, record)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR): // it was overwritten meanwhile
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return all, nil
		case err != nil:
			return all, &os.PathError{Op: "read", Path: path, Err: err}
		}
		for line := range strings.SplitSeq(string(record[:n]), "\n") {
			if e, ok := parse(line); ok {
				all = append(all, e)
			}
		}
		all = all[max(0, len(all)-mostEvents):]
	}
	return all, nil
}

// parse reads a record: "PRIORITY,SEQUENCE,MICROSECONDS,...;TEXT".
func parse(line string) (e Message, ok bool) {
	head, text, found := strings.Cut(line, ";")
	if !found {
		return e, false
	}
	parts := message.FindStringSubmatch(text)
	if parts == nil {
		return e, false
	}
	var err error
	if e.GPU, err = pcie.Parse(parts[1] + ".0"); err != nil {
		return e, false
	}
	e.Number, _ = strconv.Atoi(parts[2])
	if ofPrograms[e.Number] {
		return e, false
	}
	if fields := strings.Split(head, ","); len(fields) > 2 {
		if us, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
			e.Since = time.Duration(us) * time.Microsecond
		}
	}
	e.Text = plain(parts[3][len(names.FindString(parts[3])):])
	return e, true
}

// plain is a text without characters that a terminal might obey.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), mostText)]
}
