// SPDX-License-Identifier: Apache-2.0

package leaks_test

import (
	"os"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }
