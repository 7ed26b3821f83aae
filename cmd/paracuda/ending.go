// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/gpubackend/frontend"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// A device process whose VM is gone must not stay, whatever holds it up: its workers hold the GPU,
// and end with it.
const (
	endLimit = 25 * time.Second // in which it ends by itself, or is ended
	endLook  = 2 * time.Second  // how often it looks whether the front end is still there
)

// ending ends a process that doesn't end by itself.
type ending struct {
	limit, look time.Duration
	exit        func()
	done        <-chan struct{} // closed once main only has to return
}

// ensure calls exit when ctx is done, or the front end gone, for longer than the limit, unless the
// session ends first and the process goes on. It returns at once.
func (e ending) ensure(ctx context.Context, conn *net.UnixConn, over <-chan struct{}) {
	go func() {
		ticker := time.NewTicker(e.look)
		defer ticker.Stop()
		for !frontend.HungUp(conn) {
			select {
			case <-ctx.Done():
			case <-ticker.C:
				continue
			}
			break
		}
		select {
		case <-over:
		case <-e.done:
		case <-time.After(e.limit):
			e.exit()
		}
	}()
}

// giveUp ends the process as it is.
func giveUp(log *logrus.Entry, endLog func()) func() {
	return func() {
		endLog()
		loglimit.Keep(log).Errorf("the device did not end by itself in %v: it is ended", endLimit)
		os.Exit(1)
	}
}

// crashAfter ends the process as a crash when lost is closed, unless it is ending anyway: the
// process that the keeper starts next can start what this one can't any more.
func crashAfter(ctx context.Context, lost <-chan struct{}, endLog func()) {
	select {
	case <-ctx.Done():
		return
	case <-lost:
	}
	select {
	case <-ctx.Done():
	case <-time.After(children.LastSignal):
		endLog()
		os.Exit(1)
	}
}
