// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// by is the end of a process that a signal ended.
type by syscall.Signal

func (b by) Error() string           { return "signal" }
func (b by) EndedBy() syscall.Signal { return syscall.Signal(b) }

// TestSignalsAreSaid: at the level that paracuda run logs at, an operator sees the signals that we
// didn't send, and nothing else.
func TestSignalsAreSaid(t *testing.T) {
	for _, test := range []struct {
		how    error
		killed bool
		want   string // level of the line; "": there is none
	}{
		{by(syscall.SIGSYS), false, "error"},
		{by(syscall.SIGSYS), true, "error"}, // it was killed afterwards
		{by(syscall.SIGSEGV), false, "warning"},
		{by(syscall.SIGSEGV), true, "warning"},
		{by(syscall.SIGKILL), false, "warning"},
		{fmt.Errorf("because: %w", by(syscall.SIGABRT)), false, "warning"},
		{by(syscall.SIGKILL), true, ""},
		{errors.New("exit status 1"), false, ""},
		{errors.New("exit status 1"), true, ""},
		{nil, false, ""},
		{nil, true, ""},
	} {
		log, said := logger()
		SayEnded(log, "worker", test.how, test.killed)
		want := test.want == "" && said.Len() == 0 ||
			strings.Contains(said.String(), "level="+test.want+" msg=\"worker ended\"")
		if !want {
			t.Errorf("%v, killed %t: the log has %q", test.how, test.killed, said)
		}
	}
}

// TestEndsDontFillTheLog: a guest whose workers die again and again gets few lines.
func TestEndsDontFillTheLog(t *testing.T) {
	log, said := logger()
	limiter := loglimit.Install(log, loglimit.Default, nil)
	for i := range 10000 {
		SayEnded(log.WithField("channel", i), "worker", by(syscall.SIGSYS), false)
	}
	limiter.Close()
	if n := strings.Count(said.String(), "worker ended"); n < 2 || n > 2*int(
		loglimit.Default.Same.Burst) {
		t.Errorf("%d lines", n)
	}
}

func logger() (*logrus.Entry, *bytes.Buffer) {
	said, log := &bytes.Buffer{}, logrus.New()
	log.SetOutput(said)
	log.SetLevel(logrus.WarnLevel)
	log.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true})
	return logrus.NewEntry(log), said
}
