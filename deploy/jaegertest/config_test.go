package jaegertest

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// variable matches how config.yaml and docker-compose.yml name variables of the
// environment, with their default.
var variable = regexp.MustCompile(`\$\{(?:env:)?(\w+):-([^}]*)\}`)

// composeFile is what the tests read of docker-compose.yml.
type composeFile struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Ports       []string          `yaml:"ports"`
		Volumes     []string          `yaml:"volumes"`
		MemLimit    string            `yaml:"mem_limit"`
		Restart     string            `yaml:"restart"`
		Healthcheck struct {
			Test []string `yaml:"test"`
		} `yaml:"healthcheck"`
		DependsOn map[string]struct {
			Condition string `yaml:"condition"`
		} `yaml:"depends_on"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

// jaegerConfig is what the tests read of config.yaml.
type jaegerConfig struct {
	Service struct {
		Extensions []string `yaml:"extensions"`
		Pipelines  map[string]struct {
			Receivers  []string `yaml:"receivers"`
			Processors []string `yaml:"processors"`
			Exporters  []string `yaml:"exporters"`
		} `yaml:"pipelines"`
	} `yaml:"service"`
	Receivers struct {
		OTLP struct {
			Protocols struct {
				GRPC endpoint `yaml:"grpc"`
				HTTP endpoint `yaml:"http"`
			} `yaml:"protocols"`
		} `yaml:"otlp"`
	} `yaml:"receivers"`
	Processors struct {
		MemoryLimiter struct {
			LimitMiB int `yaml:"limit_mib"`
		} `yaml:"memory_limiter"`
	} `yaml:"processors"`
	Extensions struct {
		Storage struct {
			Backends map[string]struct {
				Badger struct {
					Ephemeral   *bool             `yaml:"ephemeral"`
					Directories map[string]string `yaml:"directories"`
					TTL         struct {
						Spans time.Duration `yaml:"spans"`
					} `yaml:"ttl"`
				} `yaml:"badger"`
			} `yaml:"backends"`
		} `yaml:"jaeger_storage"`
		Query struct {
			MaxClockSkewAdjust *time.Duration `yaml:"max_clock_skew_adjust"`
			EnableTracing      *bool          `yaml:"enable_tracing"`
			HTTP               endpoint       `yaml:"http"`
			UI                 struct {
				ConfigFile string `yaml:"config_file"`
			} `yaml:"ui"`
		} `yaml:"jaeger_query"`
		Health struct {
			HTTP endpoint `yaml:"http"`
		} `yaml:"healthcheckv2"`
	} `yaml:"extensions"`
}

type endpoint struct {
	Endpoint string `yaml:"endpoint"`
}

func (e endpoint) port(t *testing.T) string {
	_, port, err := net.SplitHostPort(e.Endpoint)
	require.NoError(t, err)
	return port
}

// read parses a YAML file of the checkout, with its variables at their defaults.
func read[T any](t *testing.T, path ...string) T {
	t.Helper()
	var parsed T
	require.NoError(t, yaml.Unmarshal([]byte(variable.ReplaceAllString(text(t, path...), "$2")), &parsed))
	return parsed
}

// text reads a file of the checkout.
func text(t *testing.T, path ...string) string {
	t.Helper()
	root, err := repository()
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	return string(content)
}

func TestConfig(t *testing.T) {
	config := read[jaegerConfig](t, "deploy", "jaeger", "config.yaml")

	require.ElementsMatch(t, []string{"jaeger_storage", "jaeger_query", "healthcheckv2"}, config.Service.Extensions)
	traces := config.Service.Pipelines["traces"]
	require.Equal(t, []string{"otlp"}, traces.Receivers)
	require.Equal(t, []string{"memory_limiter"}, traces.Processors)
	require.Equal(t, []string{"jaeger_storage_exporter"}, traces.Exporters)
	require.Positive(t, config.Processors.MemoryLimiter.LimitMiB)

	for name, e := range map[string]endpoint{
		"4317":  config.Receivers.OTLP.Protocols.GRPC,
		"4318":  config.Receivers.OTLP.Protocols.HTTP,
		"16686": config.Extensions.Query.HTTP,
		"13133": config.Extensions.Health.HTTP,
	} {
		require.Equal(t, "localhost:"+name, e.Endpoint, "only this machine reaches Jaeger unless told otherwise")
	}

	badger := config.Extensions.Storage.Backends["badger"].Badger
	require.NotNil(t, badger.Ephemeral)
	require.False(t, *badger.Ephemeral)
	require.GreaterOrEqual(t, badger.TTL.Spans, 365*24*time.Hour)
	require.NotNil(t, config.Extensions.Query.MaxClockSkewAdjust)
	require.Zero(t, *config.Extensions.Query.MaxClockSkewAdjust)
	require.NotNil(t, config.Extensions.Query.EnableTracing)
	require.False(t, *config.Extensions.Query.EnableTracing, "Jaeger's own spans have no place among the proofs")

	require.True(t, json.Valid([]byte(text(t, "deploy", "jaeger", config.Extensions.Query.UI.ConfigFile))))
}

// Each variable that a user can set is in the README, with its default.
func TestVariablesAreDocumented(t *testing.T) {
	readme := text(t, "deploy", "jaeger", "README.md")
	for _, file := range [][]string{{"deploy", "jaeger", "config.yaml"}, {"docker-compose.yml"}} {
		for _, match := range variable.FindAllStringSubmatch(text(t, file...), -1) {
			if match[1] == "NAME" { // config.yaml's own explanation
				continue
			}
			row := "| `" + match[1] + "` | "
			if match[2] != "" {
				row += "`" + match[2] + "` |"
			}
			require.Contains(t, readme, row, "%s uses %s", file, match[0])
		}
	}
}

func TestComposeFitsConfig(t *testing.T) {
	compose := read[composeFile](t, "docker-compose.yml")
	config := read[jaegerConfig](t, "deploy", "jaeger", "config.yaml")
	jaeger := compose.Services["jaeger"]

	// Ports: what the configuration listens on, at the same number outside.
	for _, port := range []string{
		config.Receivers.OTLP.Protocols.GRPC.port(t),
		config.Receivers.OTLP.Protocols.HTTP.port(t),
		config.Extensions.Query.HTTP.port(t),
	} {
		require.Contains(t, jaeger.Ports, "127.0.0.1:"+port+":"+port)
	}
	require.Len(t, jaeger.Ports, 3)
	require.Equal(t, "0.0.0.0", jaeger.Environment["JAEGER_LISTEN_HOST"])
	require.Contains(t, strings.Join(jaeger.Healthcheck.Test, " "),
		":"+config.Extensions.Health.HTTP.port(t)+"/status")

	// Files: what is mounted is there, and where Jaeger looks for it.
	mounts := map[string]string{} // by the path inside
	for _, volume := range jaeger.Volumes {
		from, to, ok := strings.Cut(volume, ":")
		require.True(t, ok, volume)
		mounts[strings.TrimSuffix(to, ":ro")] = from
		if strings.HasPrefix(from, "./") {
			require.NotEmpty(t, text(t, from), from)
		} else {
			require.Contains(t, compose.Volumes, from)
		}
	}
	require.Equal(t, []string{"--config", "/etc/jaeger/config.yaml"}, jaeger.Command)
	require.Equal(t, "./deploy/jaeger/config.yaml", mounts["/etc/jaeger/config.yaml"])
	require.Equal(t, "./deploy/jaeger/ui.json", mounts[jaeger.Environment["JAEGER_UI_CONFIG"]])
	data := mounts[jaeger.Environment["JAEGER_DATA"]]
	require.Contains(t, compose.Volumes, data)

	// The volume is handed to Jaeger's user before Jaeger starts.
	for name, dependency := range jaeger.DependsOn {
		require.Equal(t, "service_completed_successfully", dependency.Condition)
		require.Equal(t, jaeger.Image, compose.Services[name].Image)
		require.Equal(t, "no", compose.Services[name].Restart)
		require.Contains(t, compose.Services[name].Volumes, data+":"+jaeger.Environment["JAEGER_DATA"])
	}
	require.Len(t, jaeger.DependsOn, 1)

	require.Equal(t, "unless-stopped", jaeger.Restart)
	gigabytes, err := strconv.Atoi(strings.TrimSuffix(jaeger.MemLimit, "g"))
	require.NoError(t, err)
	require.Greater(t, gigabytes*1024, config.Processors.MemoryLimiter.LimitMiB)
}

// The image is the release of the module version that is built without Docker:
// Jaeger gives each release a version of the module and one of the image, and
// names both in its changelog.
func TestImageIsTheModulesRelease(t *testing.T) {
	if os.Getenv(skipVariable) != "" {
		t.Skipf("%s is set: Jaeger's module, which has the changelog, may not be here", skipVariable)
	}
	root, err := repository()
	require.NoError(t, err)
	download := exec.Command("go", "mod", "download", "-json", "github.com/jaegertracing/jaeger")
	download.Dir = filepath.Join(root, "deploy", "jaeger")
	download.Env = append(os.Environ(), "GOWORK=off")
	output, err := download.Output()
	require.NoError(t, err, "%s", output)
	var module struct{ Version, Dir string }
	require.NoError(t, json.Unmarshal(output, &module))

	changelog, err := os.ReadFile(filepath.Join(module.Dir, "CHANGELOG.md"))
	require.NoError(t, err)
	release := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(module.Version) + ` / v(\S+)`).FindSubmatch(changelog)
	require.NotNil(t, release, "the changelog has no release of module version %s", module.Version)

	compose := read[composeFile](t, "docker-compose.yml")
	require.Equal(t, "jaegertracing/jaeger:"+string(release[1]), compose.Services["jaeger"].Image)
	require.Contains(t, text(t, "deploy", "jaeger", "README.md"), string(release[1]))
}
