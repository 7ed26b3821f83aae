// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// TestWrongHandlesDontFillTheLog: each is an error of the guest's, and few of them are lines of the
// host's log.
func TestWrongHandlesDontFillTheLog(t *testing.T) {
	r, _ := sharingRig(t)
	var out bytes.Buffer
	r.log.Logger.SetOutput(&out)
	limit := loglimit.Install(r.log, loglimit.Default, nil)
	const each = 2000
	for i := range uint64(each) {
		r.want(t, gpubackend.InvalidValue, gpubackend.OpIpcOpenMemHandle, i, 1, 0, 4096, 0)
		r.want(t, gpubackend.InvalidHandle, gpubackend.OpIpcOpenEventHandle, i, 1)
	}
	r.log.WithFields(logrus.Fields{"function": "a\nb"}).Warn("something else")
	limit.Close()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) > 100 {
		t.Fatalf("%d lines", len(lines))
	}
	if !strings.Contains(lines[len(lines)-2], "something else") {
		t.Errorf("another message is lost: %q", lines[len(lines)-2])
	}
	held := regexp.MustCompile(`lines=(\d+)`).FindStringSubmatch(lines[len(lines)-1])
	if held == nil {
		t.Fatalf("nothing is said of the lines that were held back: %q", lines[len(lines)-1])
	}
	if n, _ := strconv.Atoi(held[1]); n+len(lines)-2 != 2*each {
		t.Errorf("%d held back and %d written of %d", n, len(lines)-2, 2*each)
	}
}
