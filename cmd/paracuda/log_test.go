// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// TestLogIsBounded in each role, and says at the end what is missing in it.
func TestLogIsBounded(t *testing.T) {
	const flood = 10000
	for level, most := range map[string]int{"info": 20, "debug": 20 * debugTimes} {
		var out strings.Builder
		log, end, err := newLog(&out, &logFlags{level: level}, "worker")
		if err != nil {
			t.Fatal(err)
		}
		for range flood {
			log.WithField("program", "line\nbreak").Warn("what a guest does wrong")
		}
		loglimit.Keep(log).Info("worker ends")
		end()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		written := len(lines) - 2
		if written < 10 || written > most+most/10 {
			t.Errorf("%s: %d lines of a flood", level, written)
		}
		if want := fmt.Sprintf("lines=%d ", flood-written); !strings.Contains(lines[len(lines)-1],
			want) {
			t.Errorf("%s: %q isn't in the last line %q", level, want, lines[len(lines)-1])
		}
		if !strings.Contains(lines[len(lines)-2], "worker ends") {
			t.Errorf("%s: the end isn't logged: %q", level, lines[len(lines)-2])
		}
	}
}

// TestCUDALogsWhereItsWorkerDoes, and not on standard error.
func TestCUDALogsWhereItsWorkerDoes(t *testing.T) {
	log := logrus.NewEntry(logrus.New())
	if got := cudaOptions(handover.Policy{}, nil, log).Log; got != log {
		t.Errorf("the log is %v", got)
	}
}

// TestNamesOfProgramsAreTextOnly: a guest's program chooses its name, and the owner's terminal
// shows it.
func TestNamesOfProgramsAreTextOnly(t *testing.T) {
	if got := plain("a\x1b[2J\tb\nc\xffé d"); got != "a?[2J?b?c\ufffdé d" {
		t.Errorf("%q", got)
	}
}

// TestChildrensLogIsBounded, however much they write, and passed on to the end.
func TestChildrensLogIsBounded(t *testing.T) {
	var said, passed strings.Builder
	log, endLog, err := newLog(&said, &logFlags{level: "info"}, "device")
	if err != nil {
		t.Fatal(err)
	}
	file, end, err := newChildLog(&passed, log)
	if err != nil {
		t.Fatal(err)
	}
	const flood = 30000
	line := strings.Repeat("x", 99) + "\n"
	for range flood {
		if _, err := file.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	end()
	endLog()
	written := strings.Count(passed.String(), line)
	if least := int(loglimit.Children.Bytes.Burst) / len(line); written < least ||
		written > 2*least {
		t.Errorf("%d lines were passed on", written)
	}
	// It is said again and again while the flood lasts.
	held := 0
	for _, text := range regexp.MustCompile(` lines=(\d+) `).FindAllStringSubmatch(said.String(), -1) {
		n, err := strconv.Atoi(text[1])
		if err != nil {
			t.Fatal(err)
		}
		held += n
	}
	if held != flood-written {
		t.Errorf("%d of %d lines held back are said: %q", held, flood-written, said.String())
	}
}
