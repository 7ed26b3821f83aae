// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// childStatus starts a worker and a mover, and returns what /proc says of each.
func childStatus(t *testing.T, s children, look func(role string, status, environ []string)) {
	t.Helper()
	for role, start := range map[string]func(*os.File) (device.Process, error){
		"worker": s.Worker, "mover": s.Mover,
	} {
		conn, theirs, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		p, err := start(theirs)
		if err != nil {
			t.Fatal(err)
		}
		pid := p.(interface{ PID() int }).PID()
		look(role, procFile(t, pid, "status", "\n"), procFile(t, pid, "environ", "\x00"))
		p.Kill()
		_ = p.Wait()
		theirs.Close()
		conn.Close()
	}
}

func procFile(t *testing.T, pid int, name, separator string) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), separator)
}

func testHousehold(
	t *testing.T, gpu string, o *deviceOptions,
) (*household, *bytes.Buffer) {
	t.Helper()
	logger := logrus.New()
	var said bytes.Buffer
	logger.SetOutput(&said)
	o.logs = logFlags{level: "error"}
	home, err := o.household(gpu, os.Stderr, logrus.NewEntry(logger))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(home.end)
	return home, &said
}

// TestChildrenAreConfined looks at the children that a device process starts.
func TestChildrenAreConfined(t *testing.T) {
	t.Setenv("PARACUDA_TEST_SECRET", "x")
	t.Setenv("PARACUDA_TEST_WANTED", "y")
	t.Setenv("CUDA_TEST_VARIABLE", "z")
	s, said := testHousehold(t, gpuCUDA, &deviceOptions{
		sandbox: true, fd: -1, arbiter: noArbiter,
		passEnv: []string{"PARACUDA_TEST_WANTED", mainVariable},
	})
	childStatus(t, s, func(role string, status, environ []string) {
		want := []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"}
		if os.Getuid() == 0 {
			want = append(want, "CapBnd:\t0000000000000000")
		}
		for _, line := range want {
			if !slices.Contains(status, line) {
				t.Errorf("%s: no %q", role, line)
			}
		}
		if slices.Contains(environ, "PARACUDA_TEST_SECRET=x") {
			t.Errorf("%s: has a variable that it doesn't need", role)
		}
		for _, v := range []string{"PARACUDA_TEST_WANTED=y", "CUDA_TEST_VARIABLE=z"} {
			if !slices.Contains(environ, v) {
				t.Errorf("%s: lacks %s", role, v)
			}
		}
	})
	if said.Len() > 0 {
		t.Errorf("logged %s", said)
	}
}

func TestNoSandbox(t *testing.T) {
	t.Setenv("PARACUDA_TEST_SECRET", "x")
	s, said := testHousehold(t, gpuSoft, &deviceOptions{})
	if !strings.Contains(said.String(), "--sandbox=off") {
		t.Errorf("logged %q, no warning", said)
	}
	childStatus(t, s, func(role string, _, environ []string) {
		if !slices.Contains(environ, "PARACUDA_TEST_SECRET=x") {
			t.Errorf("%s: the environment isn't passed on", role)
		}
	})
}

func TestSandboxFlag(t *testing.T) {
	for value, want := range map[string]string{"on": "on", "off": "off", "": "", "yes": ""} {
		var s sandboxFlag
		if err := s.Set(value); (err == nil) != (want != "") || err == nil && s.String() != want {
			t.Errorf("%q: %v, %v", value, s.String(), err)
		}
	}
}
