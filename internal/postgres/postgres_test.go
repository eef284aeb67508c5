package postgres_test

import (
	"os"
	"testing"

	"github.com/space-platform/space/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }
