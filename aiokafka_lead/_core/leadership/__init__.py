"""The rules by which this client follows a partition's leader, and finds its cluster again.

They come from the accepted KIP-951 (leaders in Produce and Fetch answers) and KIP-899 (rebootstrap), and from the
experience of clients since their release; each names its source or its reason. Comments and tests refer to them by
number. A *hint* is a refusing broker's statement about the leader; a *move* is the change of a partition's leader.

This package has `hints` (reads hints from answers) and `patience` (delays of failed batches and fetches, doubt in
their leader, and durations of moves). ``_core/metadata`` decides how hints change the client's view of its cluster.

Hints
    1. A hint counts only with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH, from Produce 10 and Fetch 16 on, with a
        leader id and a leader epoch of at least 0. Brokers do send -1 for either. (KIP-951)
    2. A hint must be newer than the known leader epoch; Metadata counts at the same epoch, too. (Java)
    3. The leader's address comes from the answer's NodeEndpoints, else from the client's view. Without an address the
        hint is dropped, but the refresh is still requested. (KIP-951)
    4. A hint about a partition that is unknown, unassigned or deleted is ignored. (Java)
    5. A hint belongs to the topic id of its request: a late hint must not give the epochs of a deleted topic to the
        new topic with the same name. (KIP-516; franz-go's bug)
    6. A hint is merged: all other topics and brokers stay. A broker that was dropped and found again would get a
        second connection, which would break the order of records.
    7. A leader at the same address keeps its connection. At another address it gets a new connection, and a connect
        to the old address that is under way must not finish.
    8. Each hint also requests a refresh of metadata, accepted or not. A single wrong hint kept clients of franz-go away
        from the leader for minutes. (KIP-951: "expedited asynchronous metadata refresh")
    9. Addresses in hints can be wrong behind a proxy: ``leader_hint_policy`` says whether to use them. A frame's
        length is checked before memory is allocated for it: a TLS alert read as a length would request gigabytes.
    10. A hinted leader is pinned until metadata has reached its epoch: an older answer neither drops it nor leaves the
        partition leaderless. Metadata that names another leader at the same epoch wins.

Producer
    11. A batch has one free retry for each advance of the leader epoch; a second failure at that epoch backs off. Its
        first attempt is no retry (Java: ProducerBatch). If the refusing broker is itself the leader of the known
        epoch, it only has not caught up: that wait begins with at most 10 ms, and doubles.
    12. An epoch advance found in Metadata ends a backoff like a hint does; another leader at the same epoch does not.
    13. Without a hint that counts, the normal backoff and a refresh apply. A broker that keeps refusing at the same
        epoch gets requests at a bounded rate. (KIP-580)
    14. Batches are requeued in the order of their sequences. Only the next sequence is sent, and a batch that was sent
        never gets another sequence. (KIP-98)
    15. A partition's batches are not sent to the new leader while earlier batches are in flight to the old leader. Late
        answers of the old leader count: success completes the batch, a retriable error requeues it at once. A broker
        with much other work gets one request at a time, so that a refused request does not delay others
        (`RequestWindow`).
    16. An error of one partition delays that partition only, never the broker's other partitions. (aiokafka's bug)
    17. A broker that shuts down refuses its partitions one by one: the refresh of a single hint covers all of them, and
        connections to new leaders are opened before the batches arrive. Leaders are never guessed.
    18. Code that runs for each record reads an immutable snapshot.

Metadata
    19. An older epoch does not replace a leader; another topic id does, even with a lower epoch. Epoch -1 carries no
        information, and before Metadata 9 epochs are not reliable (KAFKA-9835). An epoch that stays lower, after an
        unclean recovery, is accepted after several answers.
    20. A partition whose leader is -1 is leaderless: metadata is refreshed with backoff until it has a leader. A
        leader that moves away and back counts as not moved.
    21. Refreshes coalesce: all requests during a refresh cause at most one more.

Consumer
    22. Only the failed partition moves, as soon as the error arrives, whatever is buffered: its preferred replica is
        cleared and its position checked against the leader epoch (KIP-320; from Fetch 12 on by the fetch itself). A
        leader without a record of the epoch has not proved data loss: reading continues. (Java resets the position)
    23. UNKNOWN_LEADER_EPOCH says that the broker is behind the client: the client backs off, without a refresh while
        its patience with the broker lasts (rule 33). (KIP-320)

Rebootstrap
    24. ``metadata_recovery_strategy="rebootstrap"`` (default): the client goes back to its bootstrap servers when no
        known broker is ready, connecting or connectable. A broker in reconnect backoff is unavailable, and so is a
        broker that has just refused a connection while another connection is made; a busy broker is not. (KIP-899)
    25. Backoffs survive a rebootstrap, each cycle is one line in the log, and names are resolved at every connect.
    26. The client also goes back after ``metadata_recovery_rebootstrap_trigger_ms`` without metadata since the first
        attempt, and at once with error REBOOTSTRAP_REQUIRED; under "none" that error is a failure with backoff.
        (KIP-1102)
    27. In these two cases all connections are closed, and requests in flight fail retriably. (KIP-1102)
    28. A metadata answer without brokers is no success.
    29. Batches and topics are kept: `send` does not block, and no data is lost.
    30. A cluster id other than the known id is refused, by default: ``cluster_id_mismatch``. Epochs and topic ids
        have no meaning in another cluster. A single address in another cluster does not prove that the client's
        cluster is gone: the error is raised, or the other cluster is adopted, once all bootstrap servers, at all their
        addresses, lead to it. Unreachable servers are waited for while patience lasts (rule 33).
        A bootstrap server is asked for metadata only. (KIP-899)
    31. The admin client goes back, too. (KIP-1102)

Patience
    32. Each wait has one reason, and does not delay work with another reason. Each reason for a refresh has its
        separate spacing. A broker lost after a burst of moves causes a refresh at once, however many refreshes hints
        have caused before. A refresh that confirms a hint counts as news. While a lost broker still leads in the view,
        refreshes continue, whether records are due or in backoff, but only for ``request_timeout_ms`` after the last
        failure to reach it. Problems that an election solves (a lost broker that leads, a partition without leader)
        cause a refresh every ``retry_backoff_ms`` for half a minute, because a cluster takes seconds to elect.
        Look-ups of a coordinator begin with 10 ms and do not wait for a connection to a lost broker. An advance of the
        leader epoch ends the waits of the consumer's queries of offsets.

Doubt
    33. A broker that answers may be wrong: it lags, is isolated, or is broken. Patience with it is bounded
        (``_core/trust``): after 3 refusals in a row, or ``2 * retry_backoff_max_ms`` after the first refused request,
        it is in doubt, and another broker is asked. About a leader, the client asks the brokers for metadata in turn,
        connected or not, and the broker in doubt last. The same holds for a broker that names no brokers, does not
        answer, or denies a topic. Each further refusal leads to the next broker, with the spacing of rule 32, and the
        first success ends the doubt. A coordinator is looked up after each refusal; a coordinator that does not say
        that it has moved is asked last about itself.
        If no known broker's answer helps, three times or, when they name no leader, for ``retry_backoff_max_ms``,
        bootstrap servers at other addresses are asked as well, unless the strategy is "none". No broker's connection is
        closed, no metadata is dropped, and these servers cannot deny a topic, since they may be the known brokers. The
        client reconnects to a bootstrap server without better answers after a while, since its name may lead to another
        broker. (KIP-1102 waits for ``metadata_recovery_rebootstrap_trigger_ms``, and then drops both.)
        A broker that was in doubt, or out of reach, when an answer moved it to another address does not go back to the
        former address, which some brokers may repeat, while it works at the new address.
        If no other broker is known, and none has a replica, no more requests are sent. UNKNOWN_SERVER_ERROR, after
        which Java gives records up, is retried by an idempotent producer until the leader is in doubt, and as often
        again. (KIP-951 and KIP-899 bound two cases of this: leaders that moved, and brokers that are all gone.)
    34. A preferred replica returns its partitions to their leader if it cannot be connected to within half a second,
        holds a fetch ``retry_backoff_max_ms`` beyond its time, or is in doubt. It is read from again once it has been
        reached, or after ``metadata_max_age_ms``. Until then, a leader that names it gets fetches without a rack,
        because a leader sends no records to a client that it redirects. (KIP-392)

Addresses
    35. A connection to a known broker states the broker and cluster that it is for, and a misrouted connection is
        refused before anything is sent on it: ``metadata_cluster_check_enable``, with brokers from Kafka 4.4 on. The
        client then goes back to its bootstrap servers, once until that address has led to its broker again, and keeps
        its connections to others; after that it tries the address with a backoff, and refreshes metadata. Not under
        the strategy "none". (KIP-1242)
        Older brokers cannot refuse: they are asked for their cluster. (Java does not) Without the check this is done
        for an address that has answered Metadata for another cluster. A member of a group may have joined there: it
        sends all fields to the coordinator after each new connection, and while its assigned topics are unknown, so
        that its target is repeated.
"""
