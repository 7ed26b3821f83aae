// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/record"
)

// openFrom opens the file of --from; nil: there is none. A VM must be able to go on from it here. A
// device process that takes another's place ignores a file that its VM has gone on from.
func (o *deviceOptions) openFrom(
	b *before, gpu string, log *logrus.Entry,
) (*saving.File, error) {
	if o.from == "" || b.facts != nil && b.facts.InFile == nil {
		return nil, nil
	}
	file, err := readFrom(o.from, gpu)
	switch {
	case err == nil:
		return file, nil
	case b.facts != nil: // its VM is here already, and can be resumed from another copy
		log.WithError(err).Error("the VM stays suspended")
		return nil, nil
	}
	return nil, fmt.Errorf("device: --from %s: %w", o.from, err)
}

// readFrom opens a file, which stays open.
func readFrom(path, gpu string) (*saving.File, error) {
	f, err := record.Open(path)
	if err != nil {
		return nil, err
	}
	file, err := saving.OpenFile(f, gpu, version)
	if err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}
