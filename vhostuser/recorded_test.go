// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// recording is what a front end has sent in one of the recorded sessions.
type recording struct {
	queues   int
	features uint64
	all      []goldenLine
	sent     []goldenLine
}

func recordings(tb testing.TB) (all []recording) {
	tb.Helper()
	files, err := filepath.Glob("testdata/*.hex")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		queues, features, lines, err := parseGolden(string(text))
		if err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		r := recording{queues: queues, features: features, all: lines}
		for _, g := range lines {
			if g.dir == '<' {
				r.sent = append(r.sent, g)
			}
		}
		all = append(all, r)
	}
	return all
}

// sending is a message with what goes along with it.
type sending struct {
	bytes []byte
	fds   []int
}

// Kinds of edits. Each takes four bytes of a script: which message, the kind, where, and what.
const (
	editDrop = iota
	editRepeat
	editSwap
	editByte
	editRequest
	editNoFDs
	editOtherFDs
	edits
)

// edit changes a sequence of messages as a script says. A message's size stays as it was, so that
// the next one begins where the session looks for it.
func edit(messages []sending, script []byte) []sending {
	for ; len(script) >= 4 && len(messages) > 1; script = script[4:] {
		i := int(script[0]) % len(messages)
		other := (i + 1 + int(script[2])) % len(messages)
		m := &messages[i]
		switch script[1] % edits {
		case editDrop:
			messages = slices.Delete(messages, i, i+1)
		case editRepeat:
			messages = slices.Insert(messages, other, *m)
		case editSwap:
			messages[i], messages[other] = messages[other], messages[i]
		case editByte:
			if n := len(m.bytes) - 12; n > 0 {
				m.bytes = slices.Clone(m.bytes)
				m.bytes[12+int(script[2])%n] = script[3]
			}
		case editRequest:
			m.bytes = slices.Clone(m.bytes)
			m.bytes[0] = script[3]
		case editNoFDs:
			m.fds = nil
		case editOtherFDs:
			m.fds = messages[other].fds
		}
	}
	return messages
}

// FuzzRecorded plays what real front ends have sent, with messages that are changed, missing,
// repeated, in another order, or have other descriptors. The device checks that the session keeps
// its promises, TestMain that nothing is left; the session must end when the front end does.
func FuzzRecorded(f *testing.F) {
	all := recordings(f)
	for i := range all {
		f.Add(byte(i), []byte{})
		f.Add(byte(i), []byte{20, editDrop, 0, 0, 30, editRepeat, 3, 0, 9, editByte, 0, 255})
		f.Add(byte(i), []byte{7, editSwap, 4, 0, 12, editRequest, 0, 11, 40, editOtherFDs, 2, 0})
	}
	f.Fuzz(func(t *testing.T, which byte, script []byte) {
		if len(script) > 100 {
			t.Skip("long scripts leave little of the recording")
		}
		r := all[int(which)%len(all)]
		var messages []sending
		for _, g := range r.sent {
			messages = append(messages, sending{g.bytes, goldenFDs(t, g)})
		}
		playRecorded(t, r, edit(messages, script))
	})
}

func playRecorded(t *testing.T, r recording, messages []sending) {
	dev := NewDevice(t, r.queues)
	dev.Bits = r.features
	front, back := Pair(t)
	// For so long it waits for a descriptor of a state that nothing comes from.
	s, err := vhostuser.New(back, served(dev, r.all), vhostuser.Options{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ended, drained := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); _ = s.Run(context.Background()) }()
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, front) }() // and descriptors
	for _, m := range messages {
		if _, _, err := front.WriteMsgUnix(m.bytes, unix.UnixRights(m.fds...), nil); err != nil {
			break // the session has ended
		}
	}
	if err := front.CloseWrite(); err != nil {
		t.Error(err)
	}
	<-ended
	_ = front.Close()
	<-drained
	if s.Panics() != 0 {
		t.Errorf("%d panics", s.Panics())
	}
}
