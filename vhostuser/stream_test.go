// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// Only a stream that can't be followed any more ends the session.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"version 0", (&vhostuser.Message{Request: 1, Flags: 0}).AppendTo(nil),
			vhostuser.ErrStream},
		{"version 2", (&vhostuser.Message{Request: 1, Flags: 2}).AppendTo(nil),
			vhostuser.ErrStream},
		{"size of 4 GiB", []byte{1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
			vhostuser.ErrStream},
		{"size above the limit", []byte{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0}, vhostuser.ErrStream},
		{"end in the header", []byte{1, 0, 0, 0, 1}, io.ErrUnexpectedEOF},
		{"end in the payload", []byte{2, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1}, io.ErrUnexpectedEOF},
	} {
		for _, keep := range []func(*vhostuser.Snapshot){nil, func(*vhostuser.Snapshot) {}} {
			r := newRig(t, 1, vhostuser.Options{Keep: keep})
			if _, err := r.Sock.Write(tt.bytes); err != nil {
				t.Fatal(err)
			}
			_ = r.Sock.CloseWrite()
			if err := r.wait(); !errors.Is(err, tt.want) {
				t.Errorf("%s: Run = %v, want %v", tt.name, err, tt.want)
			}
		}
	}
}

// TestPeek: what is shown stays in the socket; what is taken has no descriptor of the message
// behind it.
func TestPeek(t *testing.T) {
	t.Parallel()
	front, back := Pair(t)
	sender := vhostuser.NewConn(front, time.Second)
	reader := vhostuser.NewConn(back, time.Second)
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := vhostuser.NewFD(fd)
	defer func() { _ = file.Close() }()
	first := &vhostuser.Message{Request: vhostuser.SetVringNum, Flags: vhostuser.FlagVersion,
		Payload: Word(1)}
	second := &vhostuser.Message{Request: vhostuser.SetVringKick, Flags: vhostuser.FlagVersion,
		Payload: Word(0), FDs: []*vhostuser.FD{file}}
	for _, m := range []*vhostuser.Message{first, second} {
		if err := sender.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []*vhostuser.Message{first, second} {
		for i := range 3 {
			m := reader.Peek()
			if m == nil || m.Request != want.Request || !bytes.Equal(m.Payload, want.Payload) ||
				!reader.Has(m) {
				t.Fatalf("%+v is shown, want %+v", m, want)
			}
			if i == 2 {
				err := reader.Take(m)
				if err != nil || len(m.FDs) != len(want.FDs) || reader.Has(m) {
					t.Fatalf("%+v is taken, %v, want %+v", m, err, want)
				}
			}
			for _, fd := range m.FDs {
				_ = fd.Close()
			}
		}
	}
	_ = front.Close()
	if m := reader.Peek(); m != nil {
		t.Errorf("%+v is shown of a socket that is closed", m)
	}
	_ = back.Close()
	if err := reader.Take(first); err == nil || reader.Has(first) || reader.Peek() != nil {
		t.Error("a socket that is closed has messages")
	}
}

func TestReplyFlagGetsNoReply(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	m := &vhostuser.Message{Request: vhostuser.GetFeatures,
		Flags: vhostuser.FlagVersion | vhostuser.FlagReply | vhostuser.FlagNeedReply}
	if err := r.Write(m); err != nil {
		t.Fatal(err)
	}
	r.MustQuery(vhostuser.GetProtocolFeatures)
}

// A message may come a byte at a time, its descriptors with any of the bytes of the header; also
// where a session of a later process is to go on.
func TestMessageInPieces(t *testing.T) {
	t.Parallel()
	for _, keep := range []func(*vhostuser.Snapshot){nil, func(*vhostuser.Snapshot) {}} {
		r := newRig(t, 1, vhostuser.Options{Keep: keep})
		r.MustSend(vhostuser.SetFeatures, Word(r.Realize(1)))
		inPieces(t, r)
	}
}

func inPieces(t *testing.T, r *rig) {
	t.Helper()
	m := &vhostuser.Message{
		Request: vhostuser.SetVringKick, Flags: vhostuser.FlagVersion | vhostuser.FlagNeedReply,
		Payload: Word(0),
	}
	for at := range 12 {
		for i, b := range m.AppendTo(nil) {
			var oob []byte
			if i == at {
				oob = unix.UnixRights(Eventfd(t))
			}
			if _, _, err := r.Sock.WriteMsgUnix([]byte{b}, oob, nil); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := r.Reply(vhostuser.SetVringKick); err != nil || b[0] != 0 {
			t.Errorf("descriptor with byte %d: % x, %v", at, b, err)
		}
	}
}

// Half a message is borne with for the timeout only; silence between messages for ever.
func TestHalfMessageTimesOut(t *testing.T) {
	t.Parallel()
	for _, half := range [][]byte{{1},
		(&vhostuser.Message{Request: 2, Flags: 1, Payload: Word(0)}).AppendTo(nil)[:13]} {
		t.Run(fmt.Sprintf("%d bytes", len(half)), func(t *testing.T) {
			t.Parallel()
			front, back := Pair(t)
			const timeout = time.Second // long enough for a reply on a busy machine
			s, err := vhostuser.New(back, NewDevice(t, 1), vhostuser.Options{Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { done <- s.Run(t.Context()) }()
			f := NewFrontend(t, front)
			f.MustQuery(vhostuser.GetFeatures)
			select {
			case err := <-done:
				t.Fatalf("Run = %v while nothing was sent", err)
			case <-time.After(3 * timeout / 2):
			}
			if _, err := front.Write(half); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Run = %v, want a timeout", err)
			}
		})
	}
}

// A front end that doesn't read its replies is given up.
func TestSilentReader(t *testing.T) {
	t.Parallel()
	front, back := Pair(t)
	s, err := vhostuser.New(back, NewDevice(t, 1),
		vhostuser.Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Run(t.Context()) }()
	m := (&vhostuser.Message{Request: vhostuser.GetFeatures,
		Flags: vhostuser.FlagVersion}).AppendTo(nil)
	for {
		if _, err := front.Write(m); err != nil {
			break
		}
	}
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Run = %v, want a timeout", err)
	}
}

// A front end that hands over its own end of the socket, and dies, isn't seen to close it. The
// session can be ended from outside still.
func TestOwnSocketHandedOver(t *testing.T) {
	t.Parallel()
	front, back := Pair(t)
	s, err := vhostuser.New(back, NewDevice(t, 1), vhostuser.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	f := NewFrontend(t, front)
	own, err := front.File()
	if err != nil {
		t.Fatal(err)
	}
	f.MustSend(vhostuser.SetVringKick, Word(0), int(own.Fd()))
	f.MustQuery(vhostuser.GetFeatures)
	_, _ = own.Close(), front.Close()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
}
