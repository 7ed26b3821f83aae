// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
)

// member is a test's VM at an arbiter. It has no device process.
type member struct {
	page *gate.Page
	*client.Client
}

// newMember has a VM join.
func newMember(t *testing.T, path, name string) *member {
	t.Helper()
	page, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	l := logrus.New()
	l.SetOutput(io.Discard)
	c, err := client.New(client.Config{
		Path: path, Required: true, Name: name, GPUs: []link.GPU{{Name: "soft"}}, Page: page,
		Log: logrus.NewEntry(l),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); page.Close() })
	return &member{page, c}
}
