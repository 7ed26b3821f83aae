// SPDX-License-Identifier: Apache-2.0

// Package logs makes the logs of paracuda's processes: which lines are written, in which form, and
// how many. What they say of guests is bounded by package loglimit.
package logs

import (
	"io"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// DebugTimes is how many times as much may be written at the level debug.
const DebugTimes = 50

// New makes a process's log: lines on w, those of a role's own name, as many as loglimit allows.
// Logging never waits for the log's reader. end says what was held back, and waits until it is
// written, as the logger's Exit does.
func New(
	w io.Writer, o *Flags, role string,
) (log *logrus.Entry, end func(), err error) {
	if err := o.Settle(); err != nil {
		return nil, nil, err
	}
	parsed, err := ParseLevel(o.Level)
	if err != nil {
		return nil, nil, err
	}
	l := logrus.New()
	log = l.WithField("role", role)
	if o.VM != "" {
		log = log.WithField("vm", o.VM)
	}
	queue := loglimit.NewQueue(w, func(lines uint64) {
		loglimit.Keep(log).WithField("lines", lines).
			Warn("lines were lost, since the log wasn't read")
	})
	l.SetOutput(queue)
	l.SetFormatter(formatter(o.Format))
	l.SetLevel(parsed)
	limits := loglimit.Default
	if parsed >= logrus.DebugLevel {
		limits = limits.Times(DebugTimes)
	}
	limiter := loglimit.Install(log, limits, nil)
	end = func() {
		limiter.Close()
		queue.Close()
	}
	logrus.RegisterExitHandler(end) // which l.Exit calls
	return log, end, nil
}

// ParseLevel reads --log-level.
func ParseLevel(level string) (logrus.Level, error) {
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return 0, cli.Usagef("--log-level %s: want debug, info, warning or error", level)
	}
	return parsed, nil
}
