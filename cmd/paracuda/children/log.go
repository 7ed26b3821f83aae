// SPDX-License-Identifier: Apache-2.0

package children

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

// Log makes a file for children to log to, whose lines go on to w. If the previous process's
// children have one, that is read instead, and no file is returned. end says what was held back.
func Log(
	w io.Writer, log *logrus.Entry, r *remains.Remains,
) (file *os.File, end func(), err error) {
	var from *os.File
	if fd, left := r.Take(remains.ChildLog); left {
		from = os.NewFile(uintptr(fd), "log")
	} else if from, file, err = os.Pipe(); err != nil {
		return nil, nil, fmt.Errorf("make a log for children: %w", err)
	} else {
		r.KeepFile(remains.ChildLog, from)
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
		case <-time.After(lastLines): // a child that hasn't ended holds it open
		}
		relay.Close()
	}, nil
}

// lastLines is how long this process waits at its end for its children's last lines.
const lastLines = time.Second
