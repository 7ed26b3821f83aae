// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestShortageIsSatOut: a child that can't be started for want of something is tried again, with
// pauses, and the next one has what was kept. That isn't a crash.
func TestShortageIsSatOut(t *testing.T) {
	t.Parallel()
	for _, lacks := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		r := newRig(t, "four")
		start, tries := r.Start, 0
		r.Crashes = 4
		r.Start = func(control *os.File) (Child, error) {
			if tries++; tries > 1 && tries < 10 {
				return nil, fmt.Errorf("fork: %w", lacks)
			}
			return start(control)
		}
		_ = r.Run(context.Background())
		r.says("1234")
		r.closed()
		var pauses []time.Duration
		for i := range 8 {
			pauses = append(pauses, DefaultPause<<min(i, mostTries))
		}
		pauses = append(pauses, DefaultPause, 2*DefaultPause) // after crashes
		if n := strings.Count(r.log.String(), "tried again"); n != 1 ||
			!slices.Equal(r.clock.waits, pauses) {
			t.Errorf("%v: pauses %v, want %v; %d lines in\n%s", lacks, r.clock.waits, pauses, n,
				&r.log)
		}
	}
}

// TestShortageWithoutEnd: it isn't tried for longer than a window. A first child isn't tried again.
func TestShortageWithoutEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, "dies")
	start, tries := r.Start, 0
	r.Start = func(control *os.File) (Child, error) {
		if tries++; tries > 1 {
			return nil, unix.EAGAIN
		}
		return start(control)
	}
	if err := r.Run(context.Background()); !errors.Is(err, unix.EAGAIN) ||
		!strings.Contains(err.Error(), "tried for 1m0s") {
		t.Errorf("Run: %v", err)
	}
	r.says("1")
	r.closed()
	var all time.Duration
	for _, pause := range r.clock.waits {
		all += pause
	}
	if all < DefaultWindow || all > DefaultWindow+DefaultPause<<mostTries {
		t.Errorf("it was tried for %v", all)
	}
	r = newRig(t, "")
	tries = 0
	r.Start = func(*os.File) (Child, error) { tries++; return nil, unix.EAGAIN }
	if err := r.Run(context.Background()); !errors.Is(err, unix.EAGAIN) || tries != 1 {
		t.Errorf("the first: %v after %d tries", err, tries)
	}
}
