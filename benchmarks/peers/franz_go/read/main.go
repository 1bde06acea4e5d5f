// A consumer of franz-go, in the words of benchmarks/reader.py: the same options, the same JSON.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap := flag.String("bootstrap", "", "")
	topic := flag.String("topic", "", "")
	group := flag.String("group-protocol", "", "")
	backoff := flag.Int("retry-backoff-ms", 100, "")
	flag.Parse()

	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Duration(*backoff) * time.Millisecond }),
	}
	switch *group {
	case "":
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{*topic: {0: kgo.NewOffset().AtStart()}}))
	case "classic":
		options = append(options, kgo.ConsumeTopics(*topic), kgo.ConsumerGroup(*topic))
	default:
		panic("this client is measured in classic groups only")
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	seen := map[int64]bool{}
	found := [][2]float64{}
	for ended.Err() == nil {
		client.PollFetches(ended).EachRecord(func(record *kgo.Record) {
			number := int64(binary.BigEndian.Uint64(record.Value))
			if number < 0 || seen[number] { // one of the warm-up, or read again
				return
			}
			seen[number] = true
			found = append(found, [2]float64{float64(number), float64(time.Now().UnixNano()) / 1e9})
		})
	}
	client.Close()
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
