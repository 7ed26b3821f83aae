// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// newChildLog makes a file for children to log to, whose lines go on to w. If those of the process
// before this one have one, that is read, and there is no file. end says what was held back.
func newChildLog(
	w io.Writer, log *logrus.Entry, r *remains.Remains,
) (file *os.File, end func(), err error) {
	var from *os.File
	if fd, left := r.Take(remains.ChildLog); left {
		from = os.NewFile(uintptr(fd), "log")
	} else if from, file, err = os.Pipe(); err != nil {
		return nil, nil, fmt.Errorf("make a log for children: %w", err)
	} else {
		keepFile(r, remains.ChildLog, from)
	}
	limits := loglimit.Children
	if log.Logger.IsLevelEnabled(logrus.DebugLevel) {
		limits = limits.Times(logs.DebugTimes)
	}
	relay, done := loglimit.NewRelay(w, log, limits, nil), make(chan struct{})
	go func() {
		defer close(done)
		relay.Copy(from)
	}()
	return file, func() {
		file.Close()
		select {
		case <-done:
		case <-time.After(lastLines): // a child that doesn't end has it open
		}
		relay.Close()
	}, nil
}

// lastLines is how long the lines of children are awaited when this process ends.
const lastLines = time.Second
