// SPDX-License-Identifier: Apache-2.0

package precopy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

const soon = time.Minute

var here = Header{GPU: "soft", Version: "1"}

// store has what came, by channel and address.
type store struct {
	has  map[[2]uint64][]byte
	fail error
}

func (s *store) Put(channel int, address uint64, b []byte) error {
	if s.has == nil {
		s.has = map[[2]uint64][]byte{}
	}
	s.has[[2]uint64{uint64(channel), address}] = bytes.Clone(b)
	return s.fail
}

// received is what Receive has come to.
type received struct {
	store
	session uint64
	all     bool
	err     error
}

// receive has a destination at the other end of a connection. What it came to is told at its end.
func receive(t *testing.T, h Header, fail error) (net.Conn, <-chan *received) {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan *received, 1)
	go func() {
		r := &received{store: store{fail: fail}}
		r.err = Receive(far, h, soon, func(session uint64) (Store, error) {
			r.session = session
			return r, nil
		}, func() { r.all = true })
		_ = far.Close()
		done <- r
	}()
	t.Cleanup(func() { _ = near.Close() })
	return near, done
}

func sectorOf(with byte) []byte { return bytes.Repeat([]byte{with}, sectorBytes) }

// TestSession: what is sent is there, a later sector in place of an earlier one, and both sides
// know that it is all.
func TestSession(t *testing.T) {
	c, done := receive(t, here, nil)
	s, err := Greet(c, here, 77, soon)
	if err != nil {
		t.Fatal(err)
	}
	for i, with := range []byte{1, 2, 3} {
		if err := s.Sector(i%2, 1<<44, sectorOf(with)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Sector(0, 0, []byte("short")) == nil {
		t.Error("a sector that is none is sent")
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.err != nil || !r.all || r.session != 77 || s.Sent() != 3*sectorBytes {
		t.Errorf("%v, all: %t, session %d, %d bytes", r.err, r.all, r.session, s.Sent())
	}
	if len(r.has) != 2 || r.has[[2]uint64{0, 1 << 44}][5] != 3 ||
		r.has[[2]uint64{1, 1 << 44}][5] != 2 {
		t.Error("other sectors are there than were sent")
	}
}

// TestRefused: the source is told why.
func TestRefused(t *testing.T) {
	for want, h := range map[string]Header{
		`another GPU, "soft", this one is "cuda"`: {GPU: "cuda", Version: "1"},
		`another version of Paracuda, "1"`:        {GPU: "soft", Version: "2"},
	} {
		c, done := receive(t, h, nil)
		if _, err := Greet(c, here, 1, soon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if r := <-done; r.err == nil || r.session != 0 {
			t.Errorf("there: %v, session %d", r.err, r.session)
		}
	}
	full := errors.New("no room\nfor it\x1b[31m")
	c, done := receive(t, here, full)
	s, err := Greet(c, here, 1, soon)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sector(0, 0, sectorOf(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.answer(hasAll); err == nil ||
		!strings.HasSuffix(err.Error(), "no room?for it?[31m") {
		t.Errorf("%v", err)
	}
	if r := <-done; !errors.Is(r.err, full) || r.all {
		t.Errorf("there: %v", r.err)
	}
	long := strings.Repeat("x", 2*maxText)
	c, done = receive(t, here, errors.New(long))
	if s, err = Greet(c, here, 1, soon); err == nil {
		err = s.Sector(0, 0, sectorOf(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.answer(hasAll); err == nil || !strings.HasSuffix(err.Error(), long[:maxText]) {
		t.Errorf("%v", err)
	}
	<-done
}

// spoken is what a source sends in a session with two sectors.
func spoken(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	var s runningSum
	write := func(parts ...[]byte) {
		if err := s.write(&b, parts...); err != nil {
			tb.Fatal(err)
		}
	}
	g := greeting{Magic: magic, Format: format, Session: 5}
	copy(g.GPU[:], here.GPU)
	copy(g.Version[:], here.Version)
	write(encode(&g))
	write(encode(&frameHead{Kind: sector, Channel: 1, Address: 1 << 44}), sectorOf(1))
	write(encode(&frameHead{Kind: sector, Channel: 1, Address: 1<<44 + sectorBytes}), sectorOf(2))
	write(encode(&frameHead{Kind: end, Number: 2}))
	return b.Bytes()
}

// recorded is a connection on which a source has said something, and reads nothing.
type recorded struct {
	io.Reader
	said bytes.Buffer
}

func (r *recorded) Write(b []byte) (int, error) { return r.said.Write(b) }
func (r *recorded) SetDeadline(time.Time) error { return nil }
func (r *recorded) receive(s *store) (all bool, err error) {
	err = Receive(r, here, soon, func(uint64) (Store, error) { return s, nil },
		func() { all = true })
	return all, err
}

// TestDamaged: a bit that is another one anywhere, an end that comes too early and pieces that
// change places are found, and nothing is taken for all.
func TestDamaged(t *testing.T) {
	good := spoken(t)
	try := func(what string, b []byte) {
		t.Helper()
		r := &recorded{Reader: bytes.NewReader(b)}
		if all, err := r.receive(&store{}); all || !errors.Is(err, ErrPrecopy) {
			t.Errorf("%s: all: %t, %v", what, all, err)
		}
	}
	r := &recorded{Reader: bytes.NewReader(good)}
	if all, err := r.receive(&store{}); !all || err != nil {
		t.Fatalf("the good one: %v", err)
	}
	heads := len(encode(&greeting{})) + sumBytes
	whole := len(encode(&frameHead{})) + sectorBytes + sumBytes
	for at := 0; at < len(good); at++ {
		if at == heads+100 { // within a sector each byte is like any other
			at = heads + whole - 10
		}
		if at == heads+whole+100 {
			at = heads + 2*whole - 10
		}
		b := bytes.Clone(good)
		b[at] ^= 0x10
		try("a bit", b)
		try("an end", good[:at])
	}
	first, second := good[heads:heads+whole], good[heads+whole:heads+2*whole]
	try("left out", append(bytes.Clone(good[:heads]), good[heads+whole:]...))
	try("repeated", bytes.Join([][]byte{good[:heads], first, first, second}, nil))
	try("other places", bytes.Join([][]byte{good[:heads], second, first,
		good[heads+2*whole:]}, nil))
}

// hostile is what a source that knows the format sends.
func hostile(frames ...frameHead) []byte {
	var b bytes.Buffer
	var s runningSum
	g := greeting{Magic: magic, Format: format, Session: 5}
	copy(g.GPU[:], here.GPU)
	copy(g.Version[:], here.Version)
	_ = s.write(&b, encode(&g))
	for _, h := range frames {
		_ = s.write(&b, encode(&h), sectorOf(1))
	}
	return b.Bytes()
}

// TestHostileSource: nothing gets to the store that can't be, and no number makes an end of what
// isn't all.
func TestHostileSource(t *testing.T) {
	for what, h := range map[string]frameHead{
		"another kind":       {Kind: 7},
		"an address":         {Kind: sector, Address: 5},
		"a channel":          {Kind: sector, Channel: MaxChannels},
		"a sector's number":  {Kind: sector, Number: 1},
		"an end too early":   {Kind: end, Number: 1},
		"an end of millions": {Kind: end, Number: 1 << 63},
		"an end's channel":   {Kind: end, Channel: 1},
	} {
		s := &store{}
		r := &recorded{Reader: bytes.NewReader(hostile(h))}
		all, err := r.receive(s)
		if all || !errors.Is(err, ErrPrecopy) || len(s.has) > 0 {
			t.Errorf("%s: all: %t, %v, %d sectors", what, all, err, len(s.has))
		}
	}
}

// TestHostileDestination: the source believes no answer that isn't one to what it sent.
func TestHostileDestination(t *testing.T) {
	for what, x := range map[string]struct {
		a    answer
		text string
	}{
		"another session": {answer{Magic: magic, Format: format, Kind: ready, Session: 8}, ""},
		"another format":  {answer{Magic: magic, Format: 9, Kind: ready, Session: 7}, ""},
		"no magic":        {answer{Format: format, Kind: ready, Session: 7}, ""},
		"another kind":    {answer{Magic: magic, Format: format, Kind: hasAll, Session: 7}, ""},
		"a long text": {answer{Magic: magic, Format: format, Kind: refuses, Session: 7,
			Text: maxText + 1}, strings.Repeat("x", maxText+1)},
		"another sum": {answer{Magic: magic, Format: format, Kind: ready, Session: 7, Sum: 1}, ""},
	} {
		near, far := net.Pipe()
		go func() {
			_, _ = io.ReadFull(far, make([]byte, len(encode(&greeting{}))+sumBytes))
			var s runningSum
			_ = s.write(far, encode(&x.a))
			_ = s.write(far, []byte(x.text))
			_ = far.Close()
		}()
		if _, err := Greet(near, here, 7, soon); !errors.Is(err, ErrPrecopy) {
			t.Errorf("%s: %v", what, err)
		}
		_ = near.Close()
	}
}

// TestSilence: who says nothing is waited for no longer than may be.
func TestSilence(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	defer near.Close()
	if _, err := Greet(near, here, 1, time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody reads: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, far) }()
	_, err := Greet(near, here, 1, 50*time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
}

// FuzzReceive: whatever comes, nothing gets to the store but whole sectors where they can be, and
// nothing is taken for all but what its end says.
func FuzzReceive(f *testing.F) {
	f.Add(spoken(f)[:400])
	f.Add(hostile(frameHead{Kind: end}))
	f.Add(encode(&greeting{Magic: magic, Format: format}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &store{}
		r := &recorded{Reader: bytes.NewReader(b)}
		all, err := r.receive(s)
		if all != (err == nil) {
			t.Fatalf("all: %t, %v", all, err)
		}
		for at, content := range s.has {
			if at[0] >= MaxChannels || at[1]%sectorBytes != 0 || len(content) != sectorBytes {
				t.Fatalf("%d bytes at %v", len(content), at)
			}
		}
		if r.said.Len() > 4*(maxText+100) {
			t.Fatalf("%d bytes were answered", r.said.Len())
		}
	})
}
