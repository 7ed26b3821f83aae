// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	soon   = time.Minute
	little = 50 * time.Millisecond
)

// pair is both ends of a connection, and what the child offers.
func pair(t *testing.T) (c *Conn, other *handover.Conn, offers chan handover.Kind) {
	t.Helper()
	near, remote, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if other, err = handover.NewConn(remote); err != nil {
		t.Fatal(err)
	}
	offers = make(chan handover.Kind, 1)
	read := make(chan struct{})
	c = New(near, soon, func(m *handover.Message, fds []int) {
		handover.CloseFiles(fds)
		offers <- m.Kind
	}, func(f func()) {
		go func() {
			defer close(read)
			f()
		}()
	})
	t.Cleanup(func() {
		_ = other.Close()
		c.Close()
		if !await.Within(soon, read) {
			t.Error("its messages are still read")
		}
	})
	return c, other, offers
}

// answer sends what the child says.
func answer(t *testing.T, other *handover.Conn, m ...handover.Message) {
	t.Helper()
	for i := range m {
		if err := other.Send(&m[i], nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswers: only what answers a request counts.
func TestAnswers(t *testing.T) {
	c, other, offers := pair(t)
	good := handover.Message{Kind: handover.KindDrained, Turn: 2, Bytes: 5}
	old, refusal := good, good
	old.Turn, old.Bytes, refusal.Error = 1, 4, "no"
	wrong := handover.Message{Kind: handover.KindStands, Turn: 2}
	answer(t, other, handover.Message{Kind: handover.KindWake}, old)
	if kind := <-offers; kind != handover.KindWake {
		t.Errorf("it offered %q", kind)
	}
	for _, x := range []struct {
		name    string
		answers []handover.Message
		fails   bool
		want    error // nil: any
	}{
		{"good", []handover.Message{good}, false, nil},
		{"one to an earlier request", []handover.Message{old, good}, false, nil},
		{"a refusal", []handover.Message{refusal}, true, ErrRefused},
		{"another kind", []handover.Message{wrong}, true, nil},
	} {
		go func() {
			if _, _, err := other.Receive(); err != nil {
				t.Error(err)
			}
			for i := range x.answers {
				if err := other.Send(&x.answers[i], nil); err != nil {
					t.Error(err)
				}
			}
		}()
		got, err := c.Consult(&handover.Message{Kind: handover.KindDrain, Turn: 2}, nil,
			handover.KindDrained, soon)
		switch {
		case (err != nil) != x.fails, x.want != nil && !errors.Is(err, x.want):
			t.Errorf("%s: %v", x.name, err)
		case err == nil && got.Bytes != 5:
			t.Errorf("%s: it says %d", x.name, got.Bytes)
		}
	}
	stop := &handover.Message{Kind: handover.KindStop}
	if err := c.Request(stop, nil, handover.KindStopped, little); err == nil ||
		errors.Is(err, ErrGone) {
		t.Errorf("no answer: %v", err)
	}
	_ = other.Close()
	<-c.ended
	if err := c.Request(stop, nil, handover.KindStopped, soon); err == nil {
		t.Error("one that is gone has answered")
	}
}

func TestQuiet(t *testing.T) {
	c, other, _ := pair(t)
	for _, kind := range []handover.Kind{handover.KindPaused, handover.KindStopped} {
		answered, err := c.Ask(&handover.Message{Kind: handover.KindPause}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.Quiet() {
			t.Error("it hasn't paused yet")
		}
		answer(t, other, handover.Message{Kind: kind})
		if err := answered(kind, soon); err != nil || !c.Quiet() {
			t.Errorf("%v, quiet: %v", err, c.Quiet())
		}
		c.GoesOn()
	}
}
