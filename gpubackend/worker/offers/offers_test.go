// SPDX-License-Identifier: Apache-2.0

package offers_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
	"github.com/paracuda/paracuda/gpubackend/worker/offers/offerstest"
	"github.com/paracuda/paracuda/internal/leaks"
)

func file(t *testing.T) int {
	t.Helper()
	fd, err := unix.MemfdCreate("offered", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// mustBeOpen waits until so many files are open: those on their way are closed by goroutines.
func mustBeOpen(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if n := leaks.Descriptors(t); n == want {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d files are open, want %d", n, want)
		}
	}
}

// TestOffers are given to who knows their kind and secret, until they end.
func TestOffers(t *testing.T) {
	before := leaks.Descriptors(t)
	hub := offerstest.New()
	one, endOne := hub.Worker()
	other, endOther := hub.Worker()
	defer endOther()
	fd := file(t)
	x, err := one.OpenMemory(gpubackend.Shared{Start: 7, Bytes: 9}, fd)
	if err != nil {
		t.Fatal(err)
	}
	s, got, err := other.ReceiveMemory(x.Secret())
	if err != nil || s.Start != 7 || s.Bytes != 9 || got < 0 || got == fd {
		t.Fatalf("%+v, file %d, %v", s, got, err)
	}
	handover.CloseFiles([]int{got})
	if _, got, err := one.ReceiveMemory(x.Secret()); err != nil {
		t.Errorf("its own: %v", err)
	} else {
		handover.CloseFiles([]int{got})
	}
	wrong := x.Secret()
	wrong[15]++
	for _, what := range []struct {
		kind   offers.Kind
		secret offers.Secret
	}{{offers.Memory, wrong}, {offers.Event, x.Secret()}, {"", x.Secret()}} {
		if _, _, err := other.Receive(what.kind, what.secret, 16); !errors.Is(err, offers.ErrNone) {
			t.Errorf("%q under %x: %v", what.kind, what.secret, err)
		}
	}
	if _, _, err := other.Receive(offers.Memory, x.Secret(), 15); err == nil {
		t.Error("it has another size")
	}
	if y, err := one.OpenAs(x.Secret(), offers.Memory, nil, file(t)); err == nil {
		t.Errorf("two under one secret: %+v", y)
	}
	event, err := one.OpenAs(x.Secret(), offers.Event, []byte("event"), -1)
	if err != nil {
		t.Fatal(err)
	}
	text, got, err := other.Receive(offers.Event, x.Secret(), 5)
	if string(text) != "event" || got != -1 || err != nil {
		t.Errorf("%q, file %d, %v", text, got, err)
	}
	for range 2 {
		x.Close()
	}
	if _, _, err := other.ReceiveMemory(x.Secret()); !errors.Is(err, offers.ErrNone) {
		t.Errorf("it has ended: %v", err)
	}
	endOne()
	if _, _, err := other.Receive(offers.Event, event.Secret(), 5); !errors.Is(err,
		offers.ErrNone) {
		t.Errorf("its worker has ended: %v", err)
	}
	event.Close()
	mustBeOpen(t, before)
}

// TestMemoryWithoutAFile is refused.
func TestMemoryWithoutAFile(t *testing.T) {
	hub := offerstest.New()
	one, end := hub.Worker()
	defer end()
	for _, kind := range []offers.Kind{offers.Memory, offers.Created} {
		secret := offers.Secret{5}
		x, err := one.OpenAs(secret, kind, make([]byte, map[offers.Kind]int{
			offers.Memory: 16, offers.Created: 8}[kind]), -1)
		if err != nil {
			t.Fatal(err)
		}
		if kind == offers.Memory {
			_, _, err = one.ReceiveMemory(secret)
		} else {
			_, _, err = one.ReceiveCreated(5)
		}
		if err == nil || errors.Is(err, offers.ErrNone) {
			t.Errorf("%s: %v", kind, err)
		}
		x.Close()
	}
}

// conn has what was sent. Each Send takes a message from the test's goroutine.
type conn struct{ sent chan *handover.Message }

func (c *conn) Send(m *handover.Message, _ []int) error {
	said := *m
	c.sent <- &said
	return nil
}

// TestAgain: another device process is told of all offers, the last message says so, and is asked
// again for what the loop waits for. Answers that nobody waits for are dropped.
func TestAgain(t *testing.T) {
	before := leaks.Descriptors(t)
	c := &conn{make(chan *handover.Message, 10_000)}
	o := offers.New(c)
	var want []offers.Secret
	for i := range 3000 {
		secret := offers.Secret{1, byte(i), byte(i >> 8)}
		if _, err := o.OpenAs(secret, offers.Event, nil, -1); err != nil {
			t.Fatal(err)
		}
		want = append(want, secret)
		<-c.sent
	}
	got := make(chan error)
	go func() {
		text, fd, err := o.Receive(offers.Event, offers.Secret{9}, 4)
		if err == nil && (string(text) != "text" || fd != -1) {
			err = errors.New(string(text))
		}
		got <- err
	}()
	asked := <-c.sent
	if asked.Kind != handover.KindSeek || len(asked.Shared) != 1 ||
		asked.Shared[0].Secret != (offers.Secret{9}) {
		t.Fatalf("%+v", asked)
	}
	if err := o.Again(); err != nil {
		t.Fatal(err)
	}
	var said []offers.Secret
	for over := false; !over; {
		m := <-c.sent
		for _, x := range m.Shared {
			said = append(said, x.Secret)
		}
		over = m.Over
	}
	order := func(a, b offers.Secret) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(said, order)
	slices.SortFunc(want, order)
	if !slices.Equal(said, want) {
		t.Errorf("%d offers, want %d", len(said), len(want))
	}
	again := <-c.sent
	if again.Kind != handover.KindSeek || again.Turn != asked.Turn {
		t.Errorf("%q with turn %d, want %d again", again.Kind, again.Turn, asked.Turn)
	}
	late := &handover.Message{Kind: handover.KindFound, Turn: asked.Turn + 1,
		Files: handover.Files{Object: true}}
	found := &handover.Message{Kind: handover.KindFound, Turn: asked.Turn, Text: []byte("text")}
	for _, m := range []*handover.Message{late, found, found} {
		var fds []int
		if m.Files.Object {
			fds = []int{file(t)}
		}
		if is, err := o.Obey(m, fds); !is || err != nil {
			t.Errorf("%t, %v", is, err)
		}
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	if is, _ := o.Obey(&handover.Message{Kind: handover.KindPause}, nil); is {
		t.Error("another message")
	}
	mustBeOpen(t, before)
}

// TestKnownWhenOpen: an offer is open when the device process knows of it, and not before: the
// guest may hand the secret on at once. Another device process is told that an answer is waited
// for; the end of the connection is one.
func TestKnownWhenOpen(t *testing.T) {
	for name, answer := range map[string]func(o *offers.Offers, c *conn, turn uint64) error{
		"known": func(o *offers.Offers, _ *conn, turn uint64) error {
			for _, n := range []uint64{turn + 1, turn, turn} { // others are for nobody
				if is, err := o.Obey(&handover.Message{Kind: handover.KindShared, Turn: n},
					nil); !is || err != nil {
					return fmt.Errorf("answer %d: %t, %w", n, is, err)
				}
			}
			return nil
		},
		"known to another": func(o *offers.Offers, c *conn, turn uint64) error {
			if err := o.Again(); err != nil {
				return err
			}
			if all := <-c.sent; !all.Over || len(all.Shared) != 1 {
				return fmt.Errorf("all: %+v", all)
			}
			if m := <-c.sent; m.Kind != handover.KindShare || m.Turn != turn {
				return fmt.Errorf("%+v, want number %d again", m, turn)
			}
			_, err := o.Obey(&handover.Message{Kind: handover.KindShared, Turn: turn}, nil)
			return err
		},
		"end": func(o *offers.Offers, _ *conn, _ uint64) error { o.End(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := &conn{make(chan *handover.Message, 16)}
			o := offers.New(c)
			o.Listens()
			open := make(chan error, 1)
			go func() {
				_, err := o.Open(offers.Event, nil, -1)
				open <- err
			}()
			m := <-c.sent
			if m.Kind != handover.KindShare || m.Turn == 0 {
				t.Fatalf("%+v", m)
			}
			select {
			case err := <-open:
				t.Fatalf("it is open before anybody knows of it: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
			if err := answer(o, c, m.Turn); err != nil {
				t.Fatal(err)
			}
			if err := <-open; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEnd: who waits learns that the connection has ended, and nobody is told of anything after
// that.
func TestEnd(t *testing.T) {
	c := &conn{make(chan *handover.Message, 16)}
	o := offers.New(c)
	x, err := o.Open(offers.Event, nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	<-c.sent
	got := make(chan error)
	go func() {
		_, _, err := o.Receive(offers.Event, offers.Secret{9}, 4)
		got <- err
	}()
	<-c.sent
	o.End()
	if err := <-got; err == nil || errors.Is(err, offers.ErrNone) {
		t.Errorf("%v", err)
	}
	if _, _, err := o.Receive(offers.Event, offers.Secret{9}, 4); err == nil {
		t.Error("something is found after the end")
	}
	x.Close()
	if len(c.sent) != 0 {
		t.Errorf("it says %+v", <-c.sent)
	}
}

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }
