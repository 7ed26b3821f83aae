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
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	l.SetLevel(parsed)
	return l.WithField("role", role), nil
}
