// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/precopy"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

const (
	soon = time.Minute
	at   = 1 << 44
)

var header = precopy.Header{GPU: "soft", Version: "1"}

// rig is an Incoming, and what its host has.
type rig struct {
	*Incoming
	t          *testing.T
	room, most uint64
	suits      error
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, room: 1 << 30}
	r.Incoming = New(Config{Header: header, Channels: 3, Answer: soon,
		Suits: func() error { return r.suits },
		Room:  func() (uint64, error) { return r.room, nil },
		Most:  func() uint64 { return r.most }})
	t.Cleanup(r.Forget)
	return r
}

// received is what Receive returned.
type received struct {
	bytes uint64
	err   error
}

// pair are the ends of a connection as a device process has one.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	a, b, err := socket.Pair(socket.Stream)
	if err != nil {
		t.Fatal(err)
	}
	for f, c := range map[*os.File]*net.Conn{a: &near, b: &far} {
		conn, err := socket.Of(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { _ = conn.Close() })
		*c = conn
	}
	return near, far
}

// from begins a session, with a source at the other end of its connection.
func (r *rig) from(session uint64) (*precopy.Sender, <-chan received, net.Conn) {
	r.t.Helper()
	near, far := pair(r.t)
	done := make(chan received, 1)
	go func() {
		n, err := r.Receive(far, func(uint64) {})
		_ = far.Close()
		done <- received{n, err}
	}()
	r.t.Cleanup(func() { _ = near.Close() })
	s, err := precopy.Greet(near, header, session, soon)
	if err != nil {
		r.t.Fatal(err)
	}
	return s, done, near
}

func sector(with byte) []byte { return bytes.Repeat([]byte{with}, sectorsum.Bytes) }

// must receives a session in which a sector of channel 1 comes twice. The second one counts.
func (r *rig) must(session uint64, with byte) {
	r.t.Helper()
	s, done, _ := r.from(session)
	for _, b := range [][]byte{sector(99), sector(with)} {
		if err := s.Sector(1, at, b); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := s.End(); err != nil {
		r.t.Fatal(err)
	}
	if x := <-done; x.err != nil || x.bytes != sectorsum.Bytes {
		r.t.Fatalf("%+v", x)
	}
}

// has reads the first bytes of the sector in the image of a channel.
func (r *rig) has(session uint64, channel int) (string, error) {
	f, err := r.Image(session, channel)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, at, 4))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b), nil
}

// TestSession: what came is found by its session and channel until it is forgotten, or another
// session comes.
func TestSession(t *testing.T) {
	r := newRig(t)
	if r.Has(0) {
		t.Error("something came of nothing")
	}
	r.must(7, 'a')
	if got, err := r.has(7, 1); err != nil || got != "aaaa" || !r.Has(7) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := r.has(7, 0); err != nil || got != "" {
		t.Errorf("of a program of which nothing came: %q, %v", got, err)
	}
	if _, err := r.has(8, 1); err == nil || r.Has(8) {
		t.Error("another session has it")
	}
	r.must(8, 'b')
	if _, err := r.has(7, 1); err == nil {
		t.Error("the one before is still there")
	}
	if got, err := r.has(8, 1); err != nil || got != "bbbb" {
		t.Errorf("%q, %v", got, err)
	}
	r.Forget()
	if _, err := r.has(8, 1); err == nil ||
		!strings.Contains(err.Error(), "went ahead to another device process") {
		t.Errorf("forgotten: %v", err)
	}
}

// TestNotAll: nothing is kept of a session that breaks off, and the next one may come.
func TestNotAll(t *testing.T) {
	r := newRig(t)
	s, done, near := r.from(5)
	if err := s.Sector(0, at, sector(1)); err != nil {
		t.Fatal(err)
	}
	_ = near.Close()
	if x := <-done; !errors.Is(x.err, precopy.ErrPrecopy) || r.Has(5) {
		t.Errorf("%+v", x)
	}
	r.must(6, 'c')
}

// TestOneAtATime: no session comes while another one does, nor where a VM is served.
func TestOneAtATime(t *testing.T) {
	r := newRig(t)
	_, done, near := r.from(5)
	if _, err := r.Receive(nil, nil); !errors.Is(err, errBusy) {
		t.Errorf("a second one: %v", err)
	}
	_ = near.Close()
	<-done
	r.suits = errors.New("it serves a VM")
	if _, err := r.Receive(nil, nil); !errors.Is(err, r.suits) {
		t.Errorf("where a VM is: %v", err)
	}
}

// TestHostile: nothing is kept beyond what there is room for, of a channel that there isn't, or at
// an address where no memory can be.
func TestHostile(t *testing.T) {
	for name, x := range map[string]struct {
		do   func(s *precopy.Sender) error
		want string
	}{
		"too much": {func(s *precopy.Sender) (err error) {
			for i := uint64(0); i < 5 && err == nil; i++ {
				err = s.Sector(0, i*sectorsum.Bytes, sector(1))
			}
			return err
		}, errRoom.Error()},
		"a channel": {func(s *precopy.Sender) error {
			return s.Sector(3, at, sector(1))
		}, "in channel 3"},
		"an address": {func(s *precopy.Sender) error {
			return s.Sector(0, maxAddress, sector(1))
		}, "no memory at"},
	} {
		for _, most := range []bool{true, false} {
			r := newRig(t)
			if most {
				r.most = 3 * sectorsum.Bytes
			} else {
				r.room = 3*sectorsum.Bytes + 5
			}
			s, done, _ := r.from(9)
			err := x.do(s)
			if err == nil {
				err = s.End()
			}
			if !errors.Is(err, precopy.ErrRefused) || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: the source is told %v", name, err)
			}
			if got := <-done; got.err == nil || got.bytes > 3*sectorsum.Bytes || r.Has(9) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}
