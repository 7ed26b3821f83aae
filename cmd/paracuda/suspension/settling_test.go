// SPDX-License-Identifier: Apache-2.0

package suspension

import (
	"errors"
	"testing"
)

// disk is a file whose content goes to the disk when it may.
type disk struct {
	may   chan error
	times int
}

func (d *disk) Sync() error { d.times++; return <-d.may }

// TestSettling: content goes to the disk once at a time, who waits has it there, and learns of an
// error that came at any time.
func TestSettling(t *testing.T) {
	d := &disk{may: make(chan error)}
	s := settling{file: d}
	if err := s.wait(); err != nil || d.times != 0 {
		t.Fatalf("nothing was begun: %v, %d times", err, d.times)
	}
	s.begin()
	s.begin() // the first one is under way
	d.may <- errNo
	if err := s.wait(); !errors.Is(err, errNo) || d.times != 1 {
		t.Errorf("%v, %d times", err, d.times)
	}
	s.begin()
	d.may <- nil
	if err := s.wait(); !errors.Is(err, errNo) || d.times != 2 {
		t.Errorf("the disk tells only once: %v, %d times", err, d.times)
	}
}
