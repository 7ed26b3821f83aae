// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/sirupsen/logrus"
)

// newLog makes a process's log: lines on w, those of a role's own name.
func newLog(w io.Writer, level, role string) (*logrus.Entry, error) {
	l := logrus.New()
	l.SetOutput(w)
	l.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	parsed, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	l.SetLevel(parsed)
	return l.WithField("role", role), nil
}

func parseLevel(level string) (logrus.Level, error) {
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return 0, fmt.Errorf("--log-level %s: want debug, info, warning or error", level)
	}
	return parsed, nil
}
