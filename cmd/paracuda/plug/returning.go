// SPDX-License-Identifier: Apache-2.0

package plug

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/cmd/paracuda/suspension"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// returning is a VM whose device was away, as `paracuda attach --from` knows it. Without a file it
// does nothing.
type returning struct {
	path, control string
	wait          time.Duration
}

// expect tells the device process the VM's file.
func (r *returning) expect() error {
	if r.path == "" {
		return nil
	}
	f, err := record.Open(r.path)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	defer f.Close()
	_, err = admin.AskWithFile(r.control, admin.Request{Expect: true, File: true}, f, nil,
		func(suspend.Progress) {})
	if err != nil {
		return fmt.Errorf("attach: --from %s: %w", r.path, err)
	}
	return nil
}

// errNotBack says that the VM has no programs that wait.
var errNotBack = errors.New("the GPU is plugged in, but the VM's driver doesn't recognise it as " +
	"the one that was suspended to this file: its programs have ended, or have waited for " +
	"as long as detach --patience said")

// backPause is between two checks whether a VM is back.
const backPause = 50 * time.Millisecond

// goOn lets the VM's programs go on, as soon as its driver has said that it is back.
func (r *returning) goOn(ctx context.Context) error {
	if r.path == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	for {
		a, err := admin.Ask(r.control, admin.Request{Stats: true})
		switch {
		case err != nil:
			return fmt.Errorf("attach: %w", err)
		case a.State != nil && a.State.Saved:
			return suspension.From(r.control, r.path)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("attach: %w", errNotBack)
		case <-time.After(backPause):
		}
	}
}
