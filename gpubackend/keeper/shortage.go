// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A child that can't be started since the host, or a limit, has no more processes, memory or
// descriptors hasn't crashed: it is tried again until there are some, for as long as Window.

// mostTries is how often the pause between two tries is doubled.
const mostTries = 4

// retries are the tries to start a child.
type retries struct {
	tries int // since a child could last be started
	since time.Time
}

// isShortage says whether a child couldn't be started for want of something.
func isShortage(err error) bool {
	return slices.ContainsFunc([]unix.Errno{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE},
		func(lacks unix.Errno) bool { return errors.Is(err, lacks) })
}

// sitOut waits before the next try. It returns the error if that has gone on for too long.
func (k *Keeper) sitOut(ctx context.Context, err error) error {
	now := k.Clock.Now()
	if k.tries == 0 {
		k.since = now
		k.Log.WithError(err).Errorf("the VM has no device until another process can be started: "+
			"it is tried again for %v", k.Window)
	}
	if now.Sub(k.since) >= k.Window {
		return fmt.Errorf("%w: it was tried for %v", err, k.Window)
	}
	pause := k.Pause << min(k.tries, mostTries)
	k.tries++
	select {
	case <-k.Clock.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
