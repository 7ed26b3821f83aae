// SPDX-License-Identifier: Apache-2.0

package sharedevent

import (
	"os"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// pair is an event as two processes have it.
func pair(t *testing.T) (a, b *Event) {
	t.Helper()
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := a.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = Map(fd); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestLatestRecordCounts(t *testing.T) {
	a, b := pair(t)
	if _, done := b.Latest(); !done {
		t.Error("never recorded, and not done")
	}
	first, second := a.Record(), b.Record()
	if first == second {
		t.Errorf("two records are number %d", first)
	}
	a.Finish(first)
	if n, done := a.Latest(); n != second || done {
		t.Errorf("latest %d, done %v", n, done)
	}
	b.Finish(second)
	a.Finish(first) // late
	if _, done := a.Latest(); !done {
		t.Error("not done")
	}
}

func TestWait(t *testing.T) {
	a, b := pair(t)
	n := a.Record()
	given := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		b.Wait(n, given)
		close(ended)
	}()
	select {
	case <-ended:
		t.Error("did not wait")
	case <-time.After(5 * time.Millisecond):
	}
	a.Finish(n)
	<-ended
	close(given)
	b.Wait(n+1, given) // given up: it returns at once
}

func TestFilesThatAreNoEvents(t *testing.T) {
	for _, size := range []uint64{0, 2 * uint64(os.Getpagesize())} {
		fd, err := memfd.New("test", size)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Map(fd); err == nil {
			t.Errorf("%d bytes pass", size)
		}
	}
	if _, err := Map(-1); err == nil {
		t.Error("no file passes")
	}
}
