"""``siltstone demo --cluster``, in reading order: ``playing`` has the steps, ``nodes`` the processes of the brokers,
``sending`` the producer that notes every pause, ``counting`` what was lost or doubled, ``report`` the chart.
"""
