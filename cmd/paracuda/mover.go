// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/worker"
)

func runMover(args []string) error { return errors.New("no mover yet") }

func connectMover(fd int) (worker.Mover, error) { return nil, errors.New("no mover yet") }
