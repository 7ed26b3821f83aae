// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// A device process whose VM is gone must not stay, whatever holds it up: its workers hold the GPU, and end with it.
const (
	endLimit = 25 * time.Second // in which it ends by itself, or is ended
	endLook  = 2 * time.Second  // how often it looks whether the front end is still there
)

// ensureEnd calls exit when ctx is done, or the front end gone, for longer than limit. It returns at once.
func ensureEnd(ctx context.Context, conn *net.UnixConn, limit, look time.Duration, exit func()) {
	go func() {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for !hungUp(conn) {
			select {
			case <-ctx.Done():
			case <-ticker.C:
				continue
			}
			break
		}
		time.Sleep(limit)
		exit()
	}()
}

// hungUp says whether a connection is closed, by either end.
func hungUp(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	fds := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, _ = unix.Poll(fds, 0)
	})
	return err != nil || fds[0].Revents != 0
}

// giveUp ends the process as it is.
func giveUp(log *logrus.Entry, endLog func()) func() {
	return func() {
		endLog()
		loglimit.Keep(log).Errorf("the device did not end by itself in %v: it is ended", endLimit)
		os.Exit(1)
	}
}
