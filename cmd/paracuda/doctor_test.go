// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/doctor"
)

// TestDoctor looks at this machine. That QEMU is missing is a problem, and gives exit code 1.
func TestDoctor(t *testing.T) {
	code, out, said := ranBy(t, "doctor", "--qemu", "/nowhere/qemu", "--gpu", "soft")
	if code != 1 || said != "" ||
		!strings.Contains(out, "\nproblem  qemu: no program /nowhere/qemu here\n") ||
		!strings.Contains(out, "ok       computation: right, on Paracuda Software GPU, ") {
		t.Errorf("exit code %d, %q:\n%s", code, said, out)
	}
	code, out, said = ranBy(t, "doctor", "--json", "--qemu", "/nowhere/qemu", "--gpu", "soft")
	var got struct {
		Healthy  bool
		Findings []doctor.Finding
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || said != "" ||
		got.Healthy || len(got.Findings) < 15 {
		t.Errorf("exit code %d, %v, %q:\n%s", code, err, said, out)
	}
}

// TestExamine: only a problem is a failure, not a warning.
func TestExamine(t *testing.T) {
	finds := func(level doctor.Level) []doctor.Check {
		return []doctor.Check{{Name: "x", Look: func(context.Context) []doctor.Finding {
			return []doctor.Finding{{Level: level}}
		}}}
	}
	for level, want := range map[doctor.Level]error{
		doctor.OK: nil, doctor.Warning: nil, doctor.Problem: cli.ExitCode(1),
	} {
		if err := examine(finds(level), true); !errors.Is(err, want) {
			t.Errorf("%s: %v", level, err)
		}
	}
}

// TestCheckConfig: the files that a device process would refuse are refused.
func TestCheckConfig(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"gpu = 'soft'\n[set]\nweight = 50": "",
		"gpu = 'voodoo'":                   "want auto, soft or cuda",
		"gpu = ":                           "line 1",
		"colour = 'red'":                   "colour: no such option",
		"name = 'a/b'":                     "VM name",
		"log-level = 'loud'":               "loud",
		"log-format = 'xml'":               "xml",
		"[set]\nweight = 0":                "line 2",
		"[set]\nspeed = 9":                 "line 2",
	} {
		file := filepath.Join(t.TempDir(), "vm.conf")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := checkConfig(file)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), file)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestComputeApart: the process that tries a GPU says what is wrong with it.
func TestComputeApart(t *testing.T) {
	if gpu, err := computeApart(t.Context(), gpuSoft); err != nil ||
		!strings.HasPrefix(gpu, "Paracuda Software GPU") {
		t.Errorf("%q, %v", gpu, err)
	}
	if _, err := computeApart(t.Context(), "voodoo"); err == nil ||
		!strings.Contains(err.Error(), "want auto, soft or cuda") {
		t.Error(err)
	}
	if code, out, said := ranBy(t, "compute", "--gpu", "voodoo"); code != 1 || out != "" ||
		!strings.Contains(said, "want soft or cuda") {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
}
