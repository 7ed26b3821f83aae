// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover"
	"github.com/paracuda/paracuda/internal/leaks"
)

// moverLibrary is a variable of the environment. With it this program is a mover on descriptor 3,
// with the driver library that it names.
const moverLibrary = "SELFCHECK_MOVER_LIBRARY"

func TestMain(m *testing.M) {
	if library := os.Getenv(moverLibrary); library != "" {
		if err := runMover(library); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if cuda.Available() == nil { // the GPU's driver keeps its own descriptors until the end
		os.Exit(m.Run())
	}
	os.Exit(leaks.Main(drivertest.Collected{Tests: m}))
}

func runMover(library string) error {
	control, err := handover.NewConn(os.NewFile(3, "control"))
	if err != nil {
		return err
	}
	return mover.Run(mover.Config{Control: control, Library: library})
}

// startMover starts this program as a mover, which has ended when the test ends.
func startMover(t *testing.T, library string) (*handover.Conn, error) {
	t.Helper()
	control, its, err := handover.Pair()
	if err != nil {
		return nil, err
	}
	defer its.Close()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), moverLibrary+"="+library)
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{its}
	if err := c.Start(); err != nil {
		control.Close()
		return nil, fmt.Errorf("start a mover: %w", err)
	}
	t.Cleanup(func() { _ = c.Wait() })
	return control, nil
}

func TestRunOnFake(t *testing.T) {
	for _, separate := range []bool{false, true} {
		t.Run(fmt.Sprintf("separate mover %t", separate), func(t *testing.T) {
			t.Setenv("CUDA_MODULE_LOADING", "")
			library := drivertest.Build(t) // a fresh one: its kernels fault at the end
			c := Config{Options: cuda.Options{Library: library}, Bytes: 8 << 20}
			if separate {
				c.StartMover = func() (*handover.Conn, error) { return startMover(t, library) }
			}
			run(t, c)
			if _, set := os.LookupEnv("CUDA_INJECTION64_PATH"); set {
				t.Error("a guest's CUDA_INJECTION64_PATH reached the driver")
			}
		})
	}
}

// TestRunOnGPU is the self-check on the host's GPU, where there is one.
func TestRunOnGPU(t *testing.T) {
	if err := cuda.Available(); err != nil {
		t.Skipf("%v: `make gpu-bundle` makes a selfcheck that runs this on a host with a GPU", err)
	}
	run(t, Config{StartMover: func() (*handover.Conn, error) {
		return startMover(t, cuda.DefaultLibrary)
	}})
}

func run(t *testing.T, c Config) {
	t.Helper()
	var text strings.Builder
	err := Run(&text, c)
	t.Logf("\n%s", text.String())
	if err != nil {
		t.Fatal(err)
	}
}
