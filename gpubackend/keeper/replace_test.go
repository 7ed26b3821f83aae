// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// TestReplace: a child is replaced as often as one likes, which is no crash, and is killed in the
// end.
func TestReplace(t *testing.T) {
	t.Parallel()
	r := newRig(t, "waits")
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	for i := range 9 {
		r.says(string(rune('1' + i)))
		r.Replace()
	}
	r.says(":")
	stop()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	r.closed()
	r.Replace() // nobody
	if len(r.clock.waits) != 0 || strings.Contains(r.log.String(), "level=error") {
		t.Errorf("pauses %v; the log:\n%s", r.clock.waits, &r.log)
	}
}

// TestReplacedByOneThatDeclines: a child that takes another one's place and ends before it is ready
// hasn't crashed, however often that is. The next one goes on, and its own end is a crash.
func TestReplacedByOneThatDeclines(t *testing.T) {
	t.Parallel()
	r := newRig(t, "declines")
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	const declined = 2 * DefaultCrashes
	for i := range declined {
		r.says(string(rune('1' + 2*i)))
		r.Replace()
		r.says(string(rune('2' + 2*i)))
	}
	r.says(string(rune('1' + 2*declined)))
	stop()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if n := strings.Count(r.log.String(), "didn't go on"); n != declined || len(r.crashes) != 0 {
		t.Errorf("%d have declined, %d crashes, want %d, none:\n%s", n, len(r.crashes), declined,
			&r.log)
	}
}

// TestReplaceWhileOneStarts: a child that was being started when Replace was called is replaced,
// too, since it may execute the old program already; the first one as soon as it has kept what it
// inherited.
func TestReplaceWhileOneStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, "waits")
	const replaced = 4
	start, fifth := r.Start, make(chan struct{})
	r.Start = func(control *os.File) (Child, error) {
		if r.starts < replaced {
			r.Replace()
		}
		c, err := start(control)
		if r.starts == replaced+1 {
			close(fifth)
		}
		return c, err
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	select {
	case <-fifth:
	case <-time.After(time.Minute):
		t.Error("one wasn't replaced")
	}
	stop()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if r.starts != replaced+1 || len(r.crashes) != 0 ||
		strings.Contains(r.log.String(), "level=error") {
		t.Errorf("%d children, %d crashes:\n%s", r.starts, len(r.crashes), &r.log)
	}
}

// TestReplaceAtTheEnd: a child that has nothing kept any more has ended for good, also when it is
// to be replaced in that moment.
func TestReplaceAtTheEnd(t *testing.T) {
	t.Parallel()
	for range 5 {
		r := newRig(t, "ends")
		over := make(chan error, 1)
		go func() { over <- r.Run(context.Background()) }()
		r.says("1")
		r.Replace()
		_, _ = r.front.Write([]byte("end"))
		if err := <-over; err != nil || r.starts != 1 {
			t.Errorf("Run: %v, after %d children", err, r.starts)
		}
	}
	k := New(Config{Log: logrus.New()})
	k.setChild(undead{t}, false)
	for _, kind := range []kind{ready, dropAll} {
		if err := k.obey(message{kind, 0, -1}); err != nil {
			t.Fatal(err)
		}
	}
	k.Replace()
}

// TestChildAsksToBeReplaced, which is no crash.
func TestChildAsksToBeReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, "asks")
	told := 0
	r.Replacing = func() { told++ }
	err := r.Run(context.Background())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("Run: %v, want how the last one ended", err)
	}
	r.says("12345678")
	r.closed()
	if told != 7 || len(r.crashes) != 0 || r.starts != 8 {
		t.Errorf("told %d times of %d children, %d crashes", told, r.starts, len(r.crashes))
	}
}
