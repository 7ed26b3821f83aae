// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// debugTimes is how much more may be written by who asks for all messages.
const debugTimes = 50

// newLog makes a process's log: lines on w, those of a role's own name, as many as loglimit allows. end says what was held
// back.
func newLog(w io.Writer, level, role string) (log *logrus.Entry, end func(), err error) {
	l := logrus.New()
	l.SetOutput(w)
	l.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	parsed, err := parseLevel(level)
	if err != nil {
		return nil, nil, err
	}
	l.SetLevel(parsed)
	limits := loglimit.Default
	if parsed >= logrus.DebugLevel {
		limits = limits.Times(debugTimes)
	}
	log = l.WithField("role", role)
	return log, loglimit.Install(log, limits, nil).Close, nil
}

func parseLevel(level string) (logrus.Level, error) {
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return 0, fmt.Errorf("--log-level %s: want debug, info, warning or error", level)
	}
	return parsed, nil
}
