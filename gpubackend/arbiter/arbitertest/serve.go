// SPDX-License-Identifier: Apache-2.0

// Package arbitertest serves arbiters for tests of their clients.
package arbitertest

import (
	"io"
	"net"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// Serve serves an arbiter at a path, until stop is called.
func Serve(t testing.TB, path string) (stop func()) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	a, err := arbiter.New(arbiter.Config{Log: logrus.NewEntry(log)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix(link.Network, &net.UnixAddr{Name: path, Net: link.Network})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = a.Serve(l)
	}()
	return func() { l.Close(); <-served; a.Close() }
}
